"""Any bytes as headers, body and subject: they stand somewhere visible, and keep nothing else waiting."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.boundary_harness import boundary, examples
from tests.support.oddities import Message, messages
from tests.support.servers import Servers

ODD = st.lists(messages, min_size=5, max_size=25)


@pytest.mark.deadline(3600)
@examples(few=8, many=400)
@given(odd=ODD, sequence=st.sampled_from(["contiguous", "monotonic", "unordered"]))
def test_whatever_bytes_come_stand_somewhere_and_all_else_drains(
    servers: Servers, odd: list[Message], sequence: str
) -> None:
    asyncio.run(_live_through(servers, odd, sequence))


async def _live_through(servers: Servers, odd: list[Message], sequence: str) -> None:
    async with boundary(servers, "Orders", "Spend", "Journal", sequence=sequence) as one, one.running():
        await one.good(1)
        for message in odd:
            await one.odd(message)
        await one.good(1)
        await one.drained()

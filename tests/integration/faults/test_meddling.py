"""Whatever others do to stream, durable, sessions and database: everything drains without help, nothing is lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.boundary_harness import BoundaryHarness, boundary, examples
from tests.support.meddling import ACTS, Act
from tests.support.servers import Servers

SEVERAL = st.lists(st.sampled_from(ACTS), min_size=2, max_size=4, unique=True)


async def endure(one: BoundaryHarness, *acts: Act, processes: int = 1) -> None:
    """Have the consumers work while these acts happen; in the end all is as if they had not."""
    await one.narrow()
    async with one.running(processes):
        await one.good()
        await one.drained()
        for act in acts:
            await one.good()
            await act(one)
        await one.good()
        await one.drained()


@pytest.mark.asyncio
@pytest.mark.deadline(480)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_what_somebody_does_is_healed_without_help(servers: Servers, act: Act) -> None:
    async with boundary(servers, "Orders", "Journal") as one:
        await endure(one, act)


@pytest.mark.deadline(3600)
@examples(few=4, many=200)
@given(acts=SEVERAL, processes=st.integers(1, 2), sequence=st.sampled_from(["contiguous", "unordered"]))
def test_whatever_several_do_one_after_the_other_is_healed_without_help(
    servers: Servers, acts: list[Act], processes: int, sequence: str
) -> None:
    async def live_through() -> None:
        async with boundary(servers, "Orders", "Journal", sequence=sequence) as one:
            await endure(one, *acts, processes=processes)

    asyncio.run(live_through())

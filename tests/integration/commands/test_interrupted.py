"""A command whose session with PostgreSQL ends, or that is kept waiting for too long, says so in one line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import gateway
from tests.support.process import run_projectionist

pytestmark = pytest.mark.asyncio

LOCKED = "lock table projectionist.parked in access exclusive mode"


async def test_a_session_that_is_cut_off_in_the_middle_of_a_command_is_told_in_a_line(
    live: ConsumerHarness,
) -> None:
    async with gateway(live.database) as gate, live.pool.acquire() as holder, holder.transaction():
        await holder.execute(LOCKED)
        call = run_projectionist("parked", "list", PROJECTIONIST_POSTGRES__URL=gate.url)
        listing = asyncio.create_task(call)
        await live.blocked()
        gate.cut()
        ended = await listing

    assert ended.code == 1
    assert ended.err.startswith("error: the session with PostgreSQL has ended: ")
    assert "look, and call again" in ended.err
    assert "Traceback" not in ended.err


async def test_a_lock_that_is_held_for_too_long_is_told_in_a_line(live: ConsumerHarness) -> None:
    soon: dict[str, Any] = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_POSTGRES__LOCK_S": "0.2",
    }
    async with live.pool.acquire() as holder, holder.transaction():
        await holder.execute(LOCKED)
        ended = await run_projectionist("parked", "list", **soon)

    assert ended.code == 1
    assert ended.err == (
        "error: PostgreSQL did not do this: LockNotAvailableError: canceling statement due to lock timeout. "
        "Nothing of the last step was done: call again\n"
    )

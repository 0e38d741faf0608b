"""The gate: who may try while a server cannot be used, and what is told of it."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import asyncpg
import pytest
from tests.support.waiting import HANG_S

from projectionist.core import clock
from projectionist.core.gate import Gate
from projectionist.runner.database.availability import Gates

pytestmark = pytest.mark.asyncio

PAUSE_S = 0.05


def gate() -> Gate:
    return Gate("server", "the server is away", "the server is back", PAUSE_S)


async def at_once(*passages: asyncio.Task[None]) -> bool:
    """Tell whether all of them get through as soon as the loop comes round to them."""
    for _ in range(500):  # rounds of the loop, which hands the lock from one task to the next
        await asyncio.sleep(0)
    return all(passage.done() for passage in passages)


async def test_an_open_gate_keeps_nobody() -> None:
    assert await at_once(asyncio.create_task(gate().wait_turn()))


async def test_a_closed_gate_lets_one_after_the_other_try_however_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the time that the gate itself has read: on a busy machine those who pass may be slow to say so."""
    closed, passed, read, now = gate(), [], [0.0], clock.now

    def reading() -> float:
        read.append(now())
        return read[-1]

    monkeypatch.setattr(clock, "now", reading)
    closed.failed(OSError("gone"))

    async def wait() -> None:
        await closed.wait_turn()
        passed.append(read[-1])

    begun = read[-1]
    await asyncio.gather(*(wait() for _ in range(4)))

    assert all(later - before >= PAUSE_S for before, later in pairwise([begun, *passed]))


async def test_the_first_that_gets_through_opens_for_all() -> None:
    closed = gate()
    closed.failed(OSError("gone"))
    waiting = [asyncio.create_task(closed.wait_turn()) for _ in range(50)]
    await closed.wait_turn()

    closed.record_success()

    assert await at_once(*waiting)


async def test_closing_and_opening_are_told_once_each(caplog: pytest.LogCaptureFixture) -> None:
    closed = gate()
    with caplog.at_level(logging.INFO, "projectionist.runner"):
        for _ in range(5):
            closed.failed(OSError("gone"))
        for _ in range(5):
            closed.record_success()

    first, second = [record.getMessage() for record in caplog.records]
    assert first == "the server is away, trying again until it can: gone"
    assert second.startswith("the server is back again, after ")


async def test_whoever_gives_up_waiting_takes_nobodys_turn() -> None:
    closed = gate()
    closed.failed(OSError("gone"))
    impatient = asyncio.create_task(closed.wait_turn())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)

    await asyncio.wait_for(closed.wait_turn(), HANG_S)


async def test_what_will_not_pass_goes_up_at_once_and_is_not_told_as_waiting() -> None:
    closed = gate()

    async def refuse() -> None:
        raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        await closed.until(refuse, lambda error: isinstance(error, OSError))
    assert not closed.closed


@pytest.mark.parametrize(
    ("error", "refuses"),
    [
        (asyncpg.TooManyConnectionsError("full"), True),
        (asyncpg.DiskFullError("full"), True),
        (asyncpg.ReadOnlySQLTransactionError("standby"), True),
        (asyncpg.DeadlockDetectedError("two"), False),
        (asyncpg.SerializationError("again"), False),
        (asyncpg.LockNotAvailableError("held"), False),
        (asyncpg.QueryCanceledError("long"), False),
        (asyncpg.AdminShutdownError("ended"), False),
        (ConnectionResetError("lost"), False),
    ],
)
async def test_only_what_concerns_everybody_closes_the_gate_for_all(error: Exception, refuses: bool) -> None:
    gates = Gates()

    assert gates.refused(error) is refuses
    assert gates.use.closed is refuses
    assert not gates.reach.closed


async def test_a_heartbeat_that_was_written_proves_nothing_once_a_batch_was_refused() -> None:
    gates, full = Gates(), asyncpg.DiskFullError("full")
    gates.refused(full, beat=True)
    gates.wrote(beat=True)
    assert not gates.use.closed

    gates.refused(full)
    gates.refused(full, beat=True)
    gates.wrote(beat=True)
    assert gates.use.closed
    # It has only shown that trying is worth while.
    assert await at_once(asyncio.create_task(gates.use.wait_turn()))
    gates.wrote()
    assert not gates.use.closed

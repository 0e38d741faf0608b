"""Statements that fail in any way: for a while it costs nothing but time, for one event it costs the others nothing."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.boundary_harness import MANY, RETRIES, VICTIM, boundary
from tests.support.faults import ANY, Fault
from tests.support.servers import Servers

pytestmark = [pytest.mark.asyncio, pytest.mark.deadline(3600 if MANY else 480)]

STATES = [
    *("08006", "09000", "0A000", "22021", "23505", "24000", "25006", "25P02", "25P03", "25P04", "26000"),
    *("28000", "2F000", "38000", "3D000", "3F000", "40001", "40003", "42501", "42601", "42703", "42P01"),
    *("53100", "53300", "54000", "55000", "55P03", "57014", "57P01", "58030", "72000", "F0000", "HV000"),
    *("P0001", "XX000", "XX001", "ZZ999"),
]
"""Of every class, and those of which the class says too little."""
STATEMENTS = {
    "entering": ["begin", "lock_consumer_shared", "select_control_row", "select_control_row_settling"],
    "claiming": ["insert_inbox_claims", "insert_missing_positions", "lock_positions"],
    "folding": ["rows.select", "rows.insert", "savepoint"],
    "journal": [
        "insert_parked_events",
        "select_parked_successors",
        "delete_parked_events",
        "update_inbox_state",
        "upsert_positions",
        "insert_intent_batches",
        "add_outcome_counts",
    ],
    "ending": ["commit", "commit, done"],
    "beside": [
        "update_heartbeat",
        "select_due_aggregates",
        "select_quarantine_to_reread",
        "select_unclean_runners",
        "select_checkpoint",
        "upsert_checkpoint",
        "raise_highest_sequence",
        "schedule_failed_heads_on_new_code",
    ],
}
"""What is asked for while a consumer works, by where it stands. A commit may be done, and its answer another."""
HELD = [
    "insert_inbox_claims",
    "insert_missing_positions",
    "lock_positions",
    "rows.select",
    "rows.insert",
    "insert_parked_events",
    "upsert_positions",
    "insert_intent_batches",
    ANY,
]
"""Statements that hold values of an event."""
OF_DATA = ["09000", "22021", "23505", "2F000", "38000", "54000", "P0001"]
"""States that speak of what a statement was given."""
PARKING = ("insert_parked_events", "add_outcome_counts")
WHILE_S = 1.0
PATIENT = msgspec.structs.replace(RETRIES, attempts=10_000)
"""What fails for a while is tried again for longer, however slow the machine is."""
GRACE_MS = 60_000
"""No version that is not published yet is taken for lost meanwhile, however slow the machine is: that would be told."""
SLOW: dict[str, Any] = {"gap_fetch_delay_ms": GRACE_MS, "retry": PATIENT}
AT_ONCE = 8
EVERY = 8


def fault_of(statement: str, state: str) -> Fault:
    """A fault by the name that it has here. Where a session ends, it ends in the middle of the statement."""
    name, _, done = statement.partition(", ")
    return Fault(name, state, done=bool(done), ends=state.startswith(("08", "57P01")))


def pairs(statements: list[str], states: list[str]) -> list[tuple[str, str]]:
    """Some states with one of the statements each, others for other statements. All of them where there is time."""
    if MANY:
        return [(state, statement) for state in states for statement in statements]
    begin = sum(map(ord, statements[0])) % EVERY
    return [(state, statements[n % len(statements)]) for n, state in enumerate(states[begin::EVERY])]


async def each(some: Iterable[tuple[str, str]], do: Callable[[str, str], Awaitable[None]]) -> None:
    """Do it for each pair, several at once; fail with those that failed."""
    turns = asyncio.Semaphore(AT_ONCE)
    failed = []

    async def one(state: str, statement: str) -> None:
        async with turns:
            try:
                await do(state, statement)
            except Exception as error:  # noqa: BLE001  told below, with the pair that it belongs to
                where = traceback.extract_tb(error.__traceback__)[-1]
                failed.append(f"{state} at {statement}: {error!r:.300} in {where.name}: {where.line}")

    await asyncio.gather(*(one(*pair) for pair in some))
    assert not failed, "\n".join(sorted(failed))


@pytest.mark.parametrize("where", STATEMENTS)
async def test_what_fails_for_a_while_drains_by_itself_afterwards(servers: Servers, where: str) -> None:
    async def do(state: str, statement: str) -> None:
        async with boundary(servers, "Orders", "Journal", **SLOW) as one, one.running():
            await one.good(1)
            await one.drained()
            heads = await one.headless()
            await inspection.reaches(8, inspection.count_parked, one.live)
            fault = fault_of(statement, state)
            one.faults.stand(fault)
            await heads()
            heads = await one.headless()
            await one.good(2)
            await one.faults.failed.wait(fault.statement)
            await asyncio.sleep(WHILE_S)
            one.faults.lift()
            await heads()
            await one.drained()

    # What is refused of an identity, or of what parking an event writes, in words of data, is kept in quarantine at
    # once, and is for a person: other than what a handler made (ADR 19; pipeline/test_failure_evidence has it drain).
    states = [state for state in STATES if where not in ("claiming", "ending") or state not in OF_DATA]
    some = pairs(STATEMENTS[where], states)
    await each([one for one in some if one[0] not in OF_DATA or one[1] not in PARKING], do)


@pytest.mark.parametrize("statement", HELD)
async def test_what_is_always_refused_of_one_event_keeps_no_other_waiting(
    servers: Servers, statement: str
) -> None:
    async def do(state: str, statement: str) -> None:
        async with boundary(servers, "Orders", "Journal", **SLOW) as one, one.running():
            await one.good(1)
            await one.drained()
            one.faults.stand(Fault(statement, state, holding=VICTIM.encode()))
            await one.victims()
            await one.good(2)
            await one.faults.failed.wait(statement)
            await one.good(2)
            await one.drained()
            one.faults.lift()

    await each(pairs([statement], STATES if statement == "rows.select" else OF_DATA), do)

"""What a process cannot do is told by `status` and by the doctor, as long as it is so and no longer."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from tests.integration.doctor.test_doctor import examined, waits
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import shop
from tests.support.waiting import HANG_S, cancelled

from projectionist.core.retry_policy import RetryPolicy
from projectionist.ops.commands import status
from projectionist.ops.inspect.project_status import look
from projectionist.runner.consumers.registry import NotRegistered
from projectionist.runner.database.chores import TOLD_FROM, Chore
from projectionist.runner.process import problem_board
from projectionist.runner.process.problem_board import ProblemBoard, ProcessProblem, failing

pytestmark = pytest.mark.asyncio

OVER = ProcessProblem("Orders", "", "ended", "newer code has taken over", "Deploy the newer code")
AWAY = ProcessProblem("Spend", "", "waits", "stream SHOP does not exist", "")


def board_of(live: ConsumerHarness, found: list[ProcessProblem]) -> ProblemBoard:
    return ProblemBoard(live.access, live.settings.postgres.schema, lambda: found)


async def test_the_failure_of_a_consumer_that_never_joined_names_process_and_next_step(
    live: ConsumerHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    unfit = NotRegistered("it is not in the database yet", remedy="Run `projectionist migrate`")
    await board_of(live, [problem_board.problem_of("Orders", "retried", unfit)]).step()

    found = await look(live.settings)
    assert not found.well
    status.show(found)
    text = capsys.readouterr().out
    (one,) = found.setbacks
    assert f"Orders: does not run and is tried again in process {one.pid} on {one.host} since " in text
    assert "it is not in the database yet. Run `projectionist migrate`" in text


async def test_what_waits_for_something_that_is_away_is_told_and_asks_nobody_to_act(
    live: ConsumerHarness,
) -> None:
    await board_of(live, [AWAY]).step()
    found = await look(live.settings)
    assert ([one.consumer for one in found.setbacks], found.well) == (["Spend"], True)


async def test_the_doctor_names_a_setback_and_what_mends_it(live: ConsumerHarness) -> None:
    cls = shop(live.stream).Orders
    await live.migrate(cls)
    await board_of(live, [OVER]).step()
    check = waits(await examined(live, cls))["Orders: setback"]
    assert check.found.startswith("it has ended in process ")
    assert check.mend == "Deploy the newer code"


async def test_a_setback_is_written_once_a_change_and_keeps_since_when_it_is(live: ConsumerHarness) -> None:
    found = [OVER]
    told = board_of(live, found)
    written = "select xmin::text, since, reason from {s}.setbacks"
    await told.step()
    before = await live.fetch(written)
    await told.step()
    assert await live.fetch(written) == before

    found[0] = ProcessProblem("Orders", "", "ended", "another reason", "")
    await told.step()
    ((_, since, reason),) = await live.fetch(written)
    assert (since, reason) == (before[0][1], "another reason")

    found.clear()
    await told.step()
    assert await live.fetch(written) == []


async def test_problems_of_an_ended_process_are_hidden_and_removed_by_the_next_one(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(problem_board, "INSTANCE", uuid4())
        await board_of(live, [OVER]).step()
    await live.fetch("update {s}.setbacks set until = clock_timestamp() - interval '1 second'")
    assert (await look(live.settings)).setbacks == []

    await board_of(live, [AWAY]).step()
    assert await inspection.rows(live, "setbacks", "consumer") == [("Spend",)]


async def test_what_is_carried_out_while_its_process_is_stopped_is_taken_back(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out, execute = asyncio.Event(), asyncpg.Connection.execute

    async def unanswered(connection: Any, query: str, *args: object, timeout: float | None = None) -> str:
        status = await execute(connection, query, *args, timeout=timeout)
        if "setbacks" in query and not carried_out.is_set():
            carried_out.set()
            await asyncio.sleep(HANG_S)
        return status

    monkeypatch.setattr(asyncpg.Connection, "execute", unanswered)
    running = asyncio.create_task(board_of(live, [OVER]).run())
    await carried_out.wait()
    assert len((await look(live.settings)).setbacks) == 1
    await cancelled(running)
    assert (await look(live.settings)).setbacks == []


async def test_a_chore_is_told_of_when_it_fails_again_and_again_until_it_goes_well(
    live: ConsumerHarness,
) -> None:
    fails = True

    async def sweep() -> None:
        if fails:
            raise KeyError("generation\0")

    at_once = RetryPolicy(initial_s=0, maximum_s=0)
    chore = Chore("dropping", sweep, at_once, consumer="Orders", book=live.access.book)
    told = ProblemBoard(live.access, live.settings.postgres.schema, lambda: failing(live.access.book))
    for _ in range(TOLD_FROM - 1):
        await chore.step()
    await told.step()
    assert (await look(live.settings)).setbacks == []

    await chore.step()
    await told.step()
    found = await look(live.settings)
    assert [(one.consumer, one.what, one.state) for one in found.setbacks] == [
        ("Orders", "dropping", "failing")
    ]
    assert "KeyError" in found.setbacks[0].reason
    assert not found.well

    fails = False
    await chore.step()
    await told.step()
    assert (await look(live.settings)).well

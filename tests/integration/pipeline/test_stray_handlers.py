"""Handlers that neither return nor raise an error: cancelled, leaving the process, waiting for what never comes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, shop
from tests.support.waiting import listening

from projectionist.projections import Envelope, Projection, SqlProjection, Tx, on
from projectionist.runner.batch.times import USUAL, BatchTimes
from projectionist.runner.batch.transaction import BatchAttempt

pytestmark = pytest.mark.asyncio

NOTES = "select array_agg(note order by note) from notes"
GOOD = [f"g{number}" for number in range(6)]


async def awaits_what_was_cancelled() -> None:
    """Await a task that somebody has cancelled."""
    task = asyncio.create_task(asyncio.sleep(600))
    task.cancel()
    await task


async def waits_for_ever() -> None:
    """Await what never comes."""
    await asyncio.Event().wait()


def is_cancelled() -> None:
    """Raise as if cancelled."""
    raise asyncio.CancelledError


def leaves() -> None:
    """End the process, as a parser of arguments does."""
    sys.exit(2)


class Abandoned(BaseException):
    """What a library raises that no `except Exception` is to catch."""


def is_closed() -> None:
    """Raise as a generator does that somebody closes."""
    raise GeneratorExit


def is_abandoned() -> None:
    """Raise what is no Exception."""
    raise Abandoned


async def is_closed_in_waiting() -> None:
    """Raise the same where something was awaited."""
    await asyncio.sleep(0)
    raise GeneratorExit


def by_sql(stream: Stream, bad: Callable[[], Awaitable[None]]) -> type[SqlProjection]:
    """Notes by SQL; what is bad is met after its row was written."""

    class Notes(SqlProjection, stream=stream.name, subjects=stream.subject("order", "{aggregate}")):
        tables = {"notes": "note text primary key"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted, envelope: Envelope) -> None:
            await tx.execute("insert into {notes} (note) values ($1)", envelope.aggregate_id)
            if event.text == "bad":
                await bad()

    return Notes


def in_memory(stream: Stream, bad: Callable[[], None]) -> type[Projection]:
    """Notes as rows."""

    class Notes(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="notes",
        key="note",
    ):
        note: str
        times: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.times += 1
            if event.text == "bad":
                bad()

    return Notes


async def failed_alone(live: ConsumerHarness, cls: type, times: BatchTimes = USUAL) -> tuple[Any, ...]:
    """Run it over one bad note among good ones: the bad one's failure."""
    await live.migrate(cls)
    for number, name in enumerate(GOOD):
        if number == len(GOOD) // 2:
            await live.publish(OrderNoted("bad"), "bad", 1)
        await live.publish(OrderNoted("x"), name, 1)
    async with live.running(cls, times=times):
        await live.value_of(NOTES, GOOD)
        await inspection.reaches(1, inspection.count_parked, live)
        await live.publish(OrderNoted("x"), "later", 1)
        await live.value_of(NOTES, [*GOOD, "later"])
    ((aggregate, *failure),) = await inspection.rows(
        live, "parked", "aggregate", "cause", "error_class", "error"
    )
    assert aggregate == "order/bad"
    return tuple(failure)


async def test_a_handler_that_awaits_what_was_cancelled_fails_its_event_alone(live: ConsumerHarness) -> None:
    failure = await failed_alone(live, by_sql(live.stream, awaits_what_was_cancelled))
    assert failure == ("failed", "asyncio.exceptions.CancelledError", "")


async def test_a_handler_that_raises_what_is_no_exception_fails_its_event_alone(
    live: ConsumerHarness,
) -> None:
    failure = await failed_alone(live, by_sql(live.stream, is_closed_in_waiting))
    assert failure == ("failed", "GeneratorExit", "")


@pytest.mark.parametrize("bad", [is_cancelled, leaves, is_closed, is_abandoned])
async def test_what_a_pure_handler_raises_ends_nothing_but_its_event(
    live: ConsumerHarness, bad: Callable[[], None]
) -> None:
    cause, error_class, _ = await failed_alone(live, in_memory(live.stream, bad))
    assert (cause, error_class) in [
        ("failed", "asyncio.exceptions.CancelledError"),
        ("failed", "SystemExit"),
        ("failed", "GeneratorExit"),
        ("failed", f"{__name__}.Abandoned"),
    ]


async def test_a_handler_that_waits_for_what_never_comes_fails_its_event_alone(live: ConsumerHarness) -> None:
    cause, error_class, error = await failed_alone(
        live, by_sql(live.stream, waits_for_ever), BatchTimes(handler_idle_s=0.5)
    )
    assert (cause, error_class) == ("failed", "alone")
    assert error == "the handler has made no use of its transaction for 0.5 s, and has not returned"


async def test_a_task_cancelled_by_nobody_is_an_error_and_the_consumer_begins_again(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Mailer)
    run, tries = BatchAttempt.run, iter([1])

    async def strayed(self: BatchAttempt, *given: Any) -> Any:
        for _ in tries:
            raise asyncio.CancelledError
        return await run(self, *given)

    monkeypatch.setattr(BatchAttempt, "run", strayed)
    await live.publish(OrderNoted("x"), "o1", 1)
    with listening() as heard:
        async with live.running(s.Mailer, supervised=True):
            await heard.wait("worker.stuck")
            await live.settled(s.Mailer)

    assert await live.states(s.Mailer) == {"e1": "applied"}

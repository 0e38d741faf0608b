"""`@on_batch`: one call for a run of events, and each event's failure its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Stream
from tests.support.shop import Receipt
from tests.support.sql_actions import outcome

from projectionist.projections import Envelope, Event, EventIntent, Events, SqlProjection, Tx, on, on_batch
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.rebuild import bulk_phase_sql

pytestmark = pytest.mark.asyncio

POISON, TOO_MUCH = 13, 90


class Added(Event, type="added"):
    """What is added to the sum of its kind."""

    kind: int
    cents: int


class Taken(Event, type="taken"):
    """What is taken from it."""

    kind: int
    less: int


class Set(Event, type="set"):
    """The latest word of an aggregate."""

    cents: int


class Noted(Event, type="noted"):
    """One with a handler of its own kind: it ends a run."""

    cents: int


def summing(stream: Stream, calls: list[int]) -> type[SqlProjection]:
    """Sums by kind, and the latest of each aggregate; `calls` hears of how many events each call has."""

    class Summing(
        SqlProjection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        tables = {
            "sums": f"kind int primary key, cents int not null check (cents < {TOO_MUCH}), taken int not null",
            "latest": "id text primary key, cents int not null",
        }

        @on_batch(Added, Taken)
        async def summed(self, tx: Tx, events: Events[Added | Taken]) -> list[EventIntent[Receipt]]:
            calls.append(len(events))
            await tx.execute(
                """
                insert into {sums}
                select kind, coalesce(sum(cents), 0), coalesce(sum(less), 0)
                from unnest($1::int[], $2::int[], $3::int[]) e (kind, cents, less) group by kind
                on conflict (kind) do update
                set cents = {sums}.cents + excluded.cents, taken = {sums}.taken + excluded.taken
                """,
                events.column("kind"),
                events.column("cents"),
                events.column("less"),
            )
            if POISON in events.column("cents"):
                raise ValueError("cannot digest it")
            return [
                events.intent(event, Receipt(order_id=envelope.id))
                for event, envelope in zip(events, events.envelopes, strict=True)
                if isinstance(event, Taken)
            ]

        @on_batch(Set)
        async def latest(self, tx: Tx, events: Events[Set]) -> None:
            calls.append(len(events))
            await tx.execute(
                """
                insert into {latest} select * from unnest($1::text[], $2::int[])
                on conflict (id) do update set cents = {latest}.cents * 2 + excluded.cents
                """,
                events.aggregate_ids,
                events.column("cents"),
            )

        @on(Noted)
        async def noted(self, tx: Tx, event: Noted, envelope: Envelope) -> None:
            await tx.execute("update {sums} set taken = taken * 2 + $1", event.cents)

    return Summing


@pytest.fixture
def calls() -> list[int]:
    return []


@pytest_asyncio.fixture
async def driver(live: ConsumerHarness, calls: list[int]) -> AsyncIterator[BatchDriver]:
    cls = summing(live.stream, calls)
    await live.migrate(cls)
    async with batch_drivers(live, cls) as (driver,):
        yield driver


Told = tuple[int, Event]


def told(driver: BatchDriver, batch: Sequence[Told]) -> list[Delivery]:
    versions: dict[int, int] = {}
    found = []
    for aggregate, event in batch:
        version = versions[aggregate] = versions.get(aggregate, 0) + 1
        found.append(driver.read(event, f"o{aggregate}", version))
    return found


CENTS = st.one_of(st.integers(0, 40), st.sampled_from([POISON, TOO_MUCH]))
EVENTS = st.one_of(
    st.builds(Added, kind=st.integers(0, 2), cents=CENTS),
    st.builds(Taken, kind=st.integers(0, 2), less=st.integers(0, 9)),
    st.builds(Set, cents=st.integers(0, 9)),
    st.builds(Noted, cents=st.integers(0, 9)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 3), EVENTS), max_size=14))
@example([(1, Set(1)), (1, Set(2)), (2, Set(1)), (1, Added(1, POISON)), (1, Set(3)), (2, Set(4))])
@example([(1, Added(1, 1)), (2, Added(1, 1)), (3, Added(1, TOO_MUCH)), (1, Taken(1, 1)), (2, Noted(1))])
async def test_runs_end_as_each_event_on_its_own(driver: BatchDriver, batch: list[Told]) -> None:
    """Rows, failures and intents, poisons anywhere."""
    deliveries = told(driver, batch)
    assert await outcome(driver, deliveries) == await outcome(driver, deliveries, singly=True)


async def test_a_run_is_one_call_and_ends_with_an_event_of_another_handler(
    driver: BatchDriver, calls: list[int]
) -> None:
    batch: list[Told] = [(number, Added(1, 0)) for number in range(20)]
    await outcome(driver, told(driver, [*batch, (20, Taken(1, 0)), (21, Noted(0)), *batch[:3]]))
    assert calls == [21, 3]


async def test_a_poison_of_a_run_fails_alone(driver: BatchDriver, live: ConsumerHarness) -> None:
    batch: list[Told] = [(number, Taken(1, 1)) for number in range(30)]
    batch[17] = (17, Added(1, POISON))
    await driver.settle(*told(driver, batch))
    assert await live.rows("sums") == [(1, 0, 29)]
    states = await live.states(driver.consumer.definition.cls)
    assert [name for name, state in states.items() if state != "applied"] == ["o17:1"]
    assert len(await inspection.rows(live, "parked", "aggregate")) == 1


async def test_events_that_one_statement_would_change_twice_are_passed_in_waves(
    driver: BatchDriver, calls: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Once refused as a whole, then the first of each aggregate and the second of each; it is told once."""
    batch: list[Told] = [(number % 8, Set(number)) for number in range(20)]
    expected = await outcome(driver, told(driver, batch), singly=True)
    calls.clear()
    for _ in range(2):
        assert await outcome(driver, told(driver, batch)) == expected
    assert calls == [20, 8, 8, 4] * 2
    assert any("group by" in record.getMessage() for record in caplog.records)


async def test_a_rebuild_cuts_runs_where_it_likes_and_has_the_same_rows(
    live: ConsumerHarness, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cls: Any = summing(live.stream, calls)
    await live.migrate(cls)
    batch = [Added(number % 3, 1) if number % 2 else Taken(number % 2, 1) for number in range(40)]
    await live.publish_all((event, f"o{n}", 1, f"e{n}") for n, event in enumerate(batch))
    await live.settle(cls)
    calls.clear()
    monkeypatch.setattr(bulk_phase_sql, "BATCH", 7)
    rebuilt = await RebuildHarness(live).rebuild(cls)
    assert rebuilt.views[0].compared.differences == []
    assert max(calls) <= 7
    assert sum(calls) == 40
    assert sum(cents for _, cents, _ in await live.rows("sums")) == 20


@pytest.mark.parametrize("answer", ["loose", "foreign", "text"])
async def test_an_intent_of_no_event_of_the_run_fails(live: ConsumerHarness, answer: str) -> None:
    strange = Noted(1)
    foreign = Events([strange], [], [None], [Noted]).intent(strange, Receipt(order_id="x"))

    class Loose(SqlProjection, stream=live.stream.name, subjects=live.stream.subject("order", "{aggregate}")):
        tables = {"loose": "k int"}

        @on_batch(Noted)
        async def noted(self, tx: Tx, events: Events[Noted]) -> Any:
            return {"loose": [Receipt(order_id="x")], "foreign": [foreign], "text": "sent"}[answer]

    await live.migrate(Loose)
    async with batch_drivers(live, Loose) as (driver,):
        found = await outcome(driver, told(driver, [(1, Noted(1)), (2, Noted(2))]))
    assert found.intents == []
    assert all("handler of runs answered with a" in str(error) for _, _, error in found.failures.values())
    assert set(found.failures) == {0, 1}

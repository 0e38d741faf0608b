"""Where consumers and the outbox stand, as it is looked up: also where nobody is running, and where nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import outbox
from tests.support.rebuilding import Slow
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.settings.settings import Alerts
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.telemetry.instruments import Metric
from projectionist.outbox.relay.outbox_metrics import OutboxMetrics
from projectionist.projections import definition
from projectionist.runner.rebuild.rebuild import Rebuild
from projectionist.runner.rebuild.times import RebuildTimes
from projectionist.runner.telemetry.state_metrics import StateMetrics

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def nothing_shown() -> Iterator[None]:
    """Each test begins with empty metrics."""
    metrics.forget()
    yield
    metrics.forget()


def shown(metric: Metric) -> dict[tuple[str, ...], float]:
    """The values of a metric by its attributes' values."""
    return {tuple(attributes.values()): value for value, attributes in metrics.shown(metric)}


async def look(live: ConsumerHarness, *consumers: type) -> None:
    async with live.pool.acquire() as connection:
        await StateMetrics([definition(one) for one in consumers], live.settings).look(connection, live.nats)


async def test_a_consumer_that_nobody_runs_is_behind_and_never_at_zero(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await look(live, s.Orders, s.Spend)
    assert shown(instruments.LAG) == {("Orders",): 1, ("Spend",): 1}
    assert shown(instruments.RUNNERS) == {("Orders",): 0, ("Spend",): 0}

    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    for number in range(2, 5):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    await look(live, s.Orders)
    assert shown(instruments.LAG)["Orders",] == 3, "asked at the broker, whoever runs it"
    assert shown(instruments.OUTCOMES)["Orders", "applied"] == 1
    live.tampered = True


async def test_a_consumer_that_was_never_migrated_is_told_as_run_by_nobody(live: ConsumerHarness) -> None:
    await look(live, shop(live.stream).Orders)
    assert shown(instruments.RUNNERS) == {("Orders",): 0}
    assert shown(instruments.LAG) == {("Orders",): 1}


async def test_without_an_app_all_that_are_registered_are_told(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    async with live.pool.acquire() as connection:
        await StateMetrics(None, live.settings).look(connection, live.nats)
    assert shown(instruments.RUNNERS) == {("Orders",): 0, ("Spend",): 0}


async def test_what_waits_is_told_by_why_and_how_old(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 2)
    await live.publish(OrderPaid(), "o1", 3)
    await live.publish(OrderPaid(), "o2", 2)
    await live.publish_raw(b"{}", None, "o3")
    await live.settle(s.Orders)
    await live.publish(OrderPlaced("eve", 1), "o4", 1)
    await look(live, s.Orders)

    assert shown(instruments.PARKED) == {
        ("Orders", "failed"): 1,
        ("Orders", "blocked"): 1,
        ("Orders", "gap"): 1,
    }
    assert shown(instruments.HEADS)["Orders", "waiting"] == 1
    assert sum(shown(instruments.QUARANTINE).values()) == 1
    assert 0 < shown(instruments.PARKED_AGE)["Orders", "waiting"] < 60
    assert 0 < shown(instruments.UNREAD_AGE)["Orders",] < 60, (
        "the last event was published after the runner had stopped"
    )
    assert shown(instruments.HEADROOM) == {("Orders",): 5}
    assert shown(instruments.REBUILDING) == {("Orders",): 0}
    live.tampered = True


OFTEN = RebuildTimes(renewed_s=0.02)


async def test_an_open_rebuild_tells_what_it_does_how_much_is_done_and_how_fast(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for number in range(7):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    await live.settle(s.Orders)
    await look(live, s.Orders)
    assert shown(instruments.REBUILD_DONE) == shown(instruments.REBUILD_RATE) == {("Orders",): 0}

    progress = Slow("Orders", after=7)
    building = asyncio.create_task(
        Rebuild(definition(s.Orders), live.settings, live.nats, progress, times=OFTEN).run(), name="builder"
    )
    await progress.reached.wait()
    await inspection.reaches(7, inspection.value, live, "build_progress", "done")
    await look(live, s.Orders)
    assert shown(instruments.REBUILD_DONE) == {("Orders", "reading"): 7}
    assert shown(instruments.REBUILD_EXPECTED) == {("Orders", "reading"): 7}
    assert shown(instruments.REBUILD_RATE)["Orders", "reading"] > 0
    assert list(shown(instruments.REBUILDING)) == [("Orders", "bulk")]

    await live.value("update {s}.build_progress set told = told - interval '1 minute'")
    progress.free.set()
    await building
    await look(live, s.Orders)
    assert shown(instruments.REBUILD_DONE) == shown(instruments.REBUILD_EXPECTED) == {("Orders",): 0}
    live.tampered = True


async def test_parked_events_without_order_are_told_by_their_own_cause(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("bad"), "o1", 1)
    await live.settle(s.Orders)
    await look(live, s.Orders)
    assert shown(instruments.PARKED) == {("Orders", "failed"): 1}
    live.tampered = True


async def test_thresholds_are_those_of_the_consumer(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    own = msgspec.structs.replace(live.policy, alerts=Alerts(max_lag=7))
    live.settings = msgspec.structs.replace(live.settings, consumers={"Spend": own})
    await look(live, s.Orders, s.Spend)
    found = shown(instruments.POLICY)
    assert (found["Orders", "max_lag"], found["Spend", "max_lag"]) == (10_000, 7)
    assert found["Spend", "max_pending_age_s"] == 300


async def test_the_outbox_is_told_by_provider_and_state_and_nothing_as_nothing(database: str) -> None:
    async with outbox(database) as harness:
        observer = OutboxMetrics(SCHEMA)
        await observer.look(harness.connection)
        assert (
            shown(instruments.INTENTS)
            == shown(instruments.INTENTS_AGE)
            == shown(instruments.CIRCUITS)
            == {(): 0}
        )

        await harness.want()
        await harness.want("elsewhere")
        await observer.look(harness.connection)
        assert shown(instruments.INTENTS) == {("ready", "stub"): 1, ("ready", "elsewhere"): 1}
        assert all(0 <= age < 60 for age in shown(instruments.INTENTS_AGE).values())

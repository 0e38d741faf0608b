"""What `/scale` of an observer says of real consumers, beside what the broker alone would say."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.scrape import free_port, get, series
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment

from projectionist.core import clock
from projectionist.core.telemetry import metrics
from projectionist.projections import definition
from projectionist.runner.telemetry.scale_board import ScaleBoard
from projectionist.runner.telemetry.scaling import ConsumerLoad
from projectionist.runner.telemetry.state_metrics import StateMetrics

pytestmark = pytest.mark.asyncio


async def looked(live: ConsumerHarness, *consumers: type) -> Any:
    """What an observer knows after one look."""
    looks = StateMetrics([definition(one) for one in consumers], live.settings)
    async with live.pool.acquire() as connection:
        await looks.look(connection, live.nats)
    metrics.forget()
    return looks.board.told()[1]


async def test_what_is_parked_wants_nobody_and_what_is_stored_and_not_applied_counts(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 2)
    await live.publish(OrderPaid(), "o2", 2)
    await live.settle(s.Orders)
    assert (await looked(live, s.Orders)).consumers["Orders"].behind == 0, "a gap and a failure are parked"

    await live.publish(OrderPlaced("bob", 1), "o3", 1)
    await live.publish(OrderPaid(), "o3", 2)
    found = await looked(live, s.Orders, s.Spend)
    assert found.consumers["Orders"].behind == 2
    assert found.consumers["Spend"].behind is None, "nobody has read it yet, so nobody knows"
    assert found.consumers["Spend"].wanted is None
    assert found.wanted == 1


async def test_what_is_stored_first_counts_though_the_broker_holds_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    policy = msgspec.structs.replace(live.policy, ack="after-store")
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders, policy=policy)
    await live.pool.execute(f"update {SCHEMA}.positions set head = 'draining', parked = 7")
    await live.count_anew()
    live.tampered = True
    assert (await looked(live, s.Orders)).consumers["Orders"].behind == 7


async def test_an_observer_answers_until_its_look_is_too_old(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders, s.Spend)
    port = free_port()
    env = {
        **environment(live, telemetry__exporter="prometheus", telemetry__metrics_interval_s="0.2"),
        "PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{port}",
    }
    async with projectionist("observe", APP, env=env) as child:
        await child.heard("telemetry.observed", 2)
        answer = await get(port, "/scale")
        found = msgspec.json.decode(answer.text)
        assert answer.status == 200
        assert found["wanted"] == 1
        assert found["consumers"]["Orders"]["behind"] == 0
        text = (await get(port, "/metrics")).text
        assert series(text, "projectionist_consumer_wanted") == {
            (("projectionist_consumer", name),): 1 for name in ("Orders", "Spend")
        }
        child.signal(signal.SIGTERM)
        assert (await child.ended()).code == 0


async def test_a_runner_does_not_answer_for_all(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    port = free_port()
    env = {**environment(live), "PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{port}"}
    async with projectionist("run", APP, env=env) as child:
        await child.heard("run.started")
        assert (await get(port, "/scale")).status == 404


async def test_an_old_look_is_none(live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(clock, "now", lambda: now)
    board = ScaleBoard(live.settings, valid_s=30)
    assert board.told()[0] is False
    board.note("Orders", ConsumerLoad(at=now, settled=0, behind=0, runners=1))
    board.looked()
    assert (board.told()[0], board.told()[1].wanted) == (True, 1)
    now += 31
    known, told = board.told()
    assert (known, told.wanted, told.looked_s) == (False, None, 31)
    metrics.forget()

"""Streams, durables and databases that are not as they were left: noticed, then mended or halted until a decision."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec
import pytest
from nats.js.api import StreamSource
from nats.js.errors import NotFoundError
from tests.support import inspection
from tests.support.app_waiter import looked, waiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.copies import copy_of
from tests.support.load import Load, tuned
from tests.support.process import run_projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.stream_files import StreamFiles
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.operator import Act
from projectionist.outbox.publishing.publisher import Published
from projectionist.runner import App
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.durable import DurableUnfit
from projectionist.runner.process.consumer_worker import ConsumerWorker
from projectionist.runner.stream_guard import observe
from projectionist.runner.stream_guard.adopt_stream import Adoption, NothingToAdopt
from projectionist.runner.wait.outcome import WaitOutcome

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "looked at it")


async def incidents(harness: ConsumerHarness) -> list[str]:
    return [kind for (kind,) in await inspection.rows(harness, "incidents", "kind", closed=None)]


async def adopt(harness: ConsumerHarness, consumer: str) -> Any:
    async with harness.pool.acquire() as connection:
        return await Adoption(connection, harness.nats, SCHEMA).adopt(consumer, ACT)


async def remake(harness: ConsumerHarness) -> None:
    """Delete the stream and make it again, empty."""
    js = harness.nats.jetstream()
    await js.delete_stream(harness.stream.name)
    await js.add_stream(name=harness.stream.name, subjects=[harness.stream.subjects])


async def durables(harness: ConsumerHarness) -> list[str]:
    return [name for (name,) in await inspection.rows(harness, "consumers", "durable", order="durable")]


async def test_a_stream_made_anew_with_other_events_is_halted_until_it_is_adopted(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    await live.publish(OrderPaid(), "o1", 2, id="b")
    await live.settle(s.Orders)
    await remake(live)
    for number in range(5):
        await live.publish(OrderPlaced("bob", number), f"n{number}", 1, id=f"n{number}")

    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("stream_guard.stream_replaced", 2)
            assert await incidents(live) == ["stream_replaced"]
            assert len(await live.rows("orders")) == 1
            adopted = await adopt(live, "Orders")
            await live.settled(s.Orders)

    assert (adopted.incarnation, adopted.again) == (2, True)
    assert len(await live.rows("orders")) == 6
    assert await incidents(live) == []
    assert await inspection.rows(live, "audit", "action", "who", "reason", action="adopt") == [
        ("adopt", "ann", "looked at it")
    ]
    assert await live.fetch("select incarnation, count(*) from {s}.inbox group by 1 order by 1") == [
        (1, 2),
        (2, 5),
    ]


async def test_what_was_judged_before_somebody_has_decided_opens_no_incident_after_it(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    await live.settle(s.Orders)
    await remake(live)
    await live.publish(OrderPlaced("bob", 1), "n1", 1, id="n1")
    observe_stream, asked = observe.observe_stream, []

    async def late(*args: Any) -> Any:
        asked.append(args)
        seen = await observe_stream(*args)
        if len(asked) == 1:
            await adopt(live, "Orders")
        return seen

    monkeypatch.setattr(observe, "observe_stream", late)
    await live.settle(s.Orders)

    assert len(asked) > 2
    assert await incidents(live) == []
    assert await inspection.count(live, "audit", action="adopt") == 1


async def test_who_waits_for_what_was_published_looks_for_it_in_the_stream_as_it_is_now(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = waiting(App(projections=[s.Orders], settings=live.settings), live.settings)
    first = Published(live.stream.name, await live.publish(OrderPlaced("ann", 5), "o1", 1), duplicate=False)
    await live.settle(s.Orders)
    assert (await app.wait_for(s.Orders, ack=first, timeout_s=HANG_S)).is_applied

    await remake(live)
    live.tampered = True  # the stream holds what nobody can read
    torn = Published(live.stream.name, await live.publish_raw(b"x", {"ce-id": "torn"}, "o2"), duplicate=False)
    assert torn.sequence == first.sequence
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("stream_guard.stream_replaced")
            halted = await looked(partial(app.wait_for, s.Orders, ack=torn))
            assert (halted.outcome, "not taken up the stream" in halted.reason) == (WaitOutcome.PENDING, True)
            asked = asyncio.create_task(app.wait_for(s.Orders, ack=torn, timeout_s=HANG_S))
            await adopt(live, "Orders")
            assert (await asked).outcome == WaitOutcome.QUARANTINED


async def test_a_stream_deleted_and_made_anew_while_it_is_read_is_noticed(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with listening() as heard:
        async with live.running(s.Orders):
            await live.publish(OrderPlaced("ann", 5), "o1", 1)
            await live.settled(s.Orders)
            await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 2)
            await remake(live)
            await live.publish(OrderPlaced("bob", 5), "o2", 1)
            await heard.wait("stream_guard.stream_replaced")
            assert len(await live.rows("orders")) == 1


async def test_a_stream_restored_with_equal_messages_is_adopted_and_read_on(live: ConsumerHarness) -> None:
    """A mirror holds what a restore brings: the same messages under the same sequences, stored at the same times."""
    live.needs_nats(2, 12, "makes a stream of a mirror")
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load, js, name = Load(live, s), live.nats.jetstream(), live.stream.name
    await load.more(20)
    await live.settle(s.Orders, s.Spend)
    await js.add_stream(name=f"{name}_KEPT", mirror=StreamSource(name=name))
    await eventually(lambda: holds(live, f"{name}_KEPT", 40))
    await js.delete_stream(name)
    await js.update_stream(name=f"{name}_KEPT", subjects=[f"{name}_KEPT.>"])
    await js.add_stream(name=name, mirror=StreamSource(name=f"{name}_KEPT"))
    await eventually(lambda: holds(live, name, 40))

    with listening() as heard:
        async with live.running(s.Orders, s.Spend):
            await heard.wait("stream_guard.stream_copied", 2)
            adopted = await adopt(live, "Orders")
            assert f"a mirror of {name}_KEPT" in adopted.found
            assert (adopted.incarnation, adopted.again) == (1, False)
            await adopt(live, "Spend")
            await live.settled(s.Orders, s.Spend)
    await js.delete_stream(f"{name}_KEPT")

    await load.check()
    assert not await inspection.count_outcomes(live, "redelivered")


async def holds(harness: ConsumerHarness, stream: str, messages: int) -> bool:
    with suppress(NotFoundError):
        return bool((await harness.nats.jetstream().stream_info(stream)).state.messages == messages)
    return False


@pytest.mark.parametrize("moves", [True, False], ids=["durables are moved", "durables are made anew"])
async def test_a_stream_that_lost_its_end_and_was_written_on_is_halted(
    live: ConsumerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    """The server is put back to an earlier copy of its own files: created, name and last sequence tell nothing."""
    if moves:
        live.needs_nats(2, 14, "moves durables")
    monkeypatch.setattr(observe, "moves", lambda version: moves)
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(20)
    await live.settle(s.Orders, s.Spend)
    files = StreamFiles(live.servers, live.nats, live.stream.name, tmp_path)
    await files.keep()
    await load.more(20)
    await live.settle(s.Orders, s.Spend)
    await files.put_back()
    for number in range(200):
        await live.publish(OrderPlaced("bob", 1), f"x{number}", 1, id=f"x{number}")

    with listening() as heard:
        async with live.running(s.Orders, s.Spend):
            await heard.wait("stream_guard.stream_regressed", 4)
            assert sorted(await incidents(live)) == ["stream_regressed", "stream_regressed"]
            assert len(await live.rows("orders")) == 40
            assert {(await adopt(live, name)).incarnation for name in ("Orders", "Spend")} == {2}
            await live.settled(s.Orders, s.Spend)
            await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 4)
            assert heard.counts["durable.moving"] == 2, "once by each adoption"

    assert len(await live.rows("orders")) == 240
    assert await inspection.count_intents(live) == 40
    assert await incidents(live) == []


async def test_messages_purged_while_unsettled_are_an_incident_and_the_rest_goes_on(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)
    for number in range(2, 9):
        await live.publish(OrderPlaced("ann", 5), f"o{number}", 1)
    await live.nats.jetstream().purge_stream(live.stream.name, seq=6)

    await live.settle(s.Orders)

    assert await incidents(live) == ["stream_purged"]
    assert [row[0] for row in await live.rows("orders")] == ["o1", "o6", "o7", "o8"]
    assert (await adopt(live, "Orders")).found == "as before"
    assert await incidents(live) == []
    with pytest.raises(NothingToAdopt):
        await adopt(live, "Orders")


async def test_a_durable_deleted_while_nobody_read_goes_on_behind_its_floor(live: ConsumerHarness) -> None:
    live.needs_nats(2, 14, "moves durables")
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(50)
    await live.settle(s.Orders, s.Spend)
    for name in await durables(live):
        await live.nats.jetstream().delete_consumer(live.stream.name, name)
    await load.more(10)

    await live.settle(s.Orders, s.Spend)

    await load.check()
    assert not await inspection.count_outcomes(live, "redelivered")
    assert await inspection.count(live, "audit", action="rewind") == 2


async def test_a_durable_deleted_under_two_processes_loses_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with live.running(s.Orders, s.Spend, processes=2):
        for _ in range(3):
            await load.more(50)
            for name in await durables(live):
                with suppress(NotFoundError):
                    await live.nats.jetstream().delete_consumer(live.stream.name, name)
        await live.settled(s.Orders, s.Spend)

    await load.check()


async def test_a_durable_that_somebody_moved_ahead_is_taken_back(live: ConsumerHarness) -> None:
    live.needs_nats(2, 14, "moves durables")
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(10)
    await live.settle(s.Orders, s.Spend)
    await load.more(30)
    for name in await durables(live):
        body = json.dumps({"seq": 60}).encode()
        await live.nats.request(f"$JS.API.CONSUMER.RESET.{live.stream.name}.{name}", body)

    await live.settle(s.Orders, s.Spend)

    await load.check()


async def test_where_a_server_cannot_move_durables_everything_is_read_again_and_known(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "moves", lambda version: False)
    live.needs_nats(2, 14, "moves durables")
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(10)
    await live.settle(s.Orders, s.Spend)
    ahead, deleted = await durables(live)
    await load.more(30)
    body = json.dumps({"seq": 60}).encode()
    await live.nats.request(f"$JS.API.CONSUMER.RESET.{live.stream.name}.{ahead}", body)
    await live.nats.jetstream().delete_consumer(live.stream.name, deleted)

    await live.settle(s.Orders, s.Spend)

    await load.check()


async def test_changed_sizes_of_a_durable_are_told_once_and_set_right_by_the_next_start(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("worker.running")
            (name,) = await durables(live)
            await changed(live, name, max_ack_pending=7, ack_wait=45)
            await heard.wait("durable.drifted")
            await heard.wait("heart.beat", heard.counts["heart.beat"] + 3)
            assert heard.counts["durable.drifted"] == 1
    assert (
        "ack_wait_s is 45, the settings here say 10, max_ack_pending is 7, the settings here say "
        in caplog.text
    )
    assert "another process has other settings" in caplog.text

    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)

    info = await live.nats.jetstream().consumer_info(live.stream.name, name)
    assert (info.config.max_ack_pending or 0) > live.settings.batch.max_rows


@pytest.mark.parametrize(
    "limit", [{"max_batch": 1}, {"max_expires": 1_000_000_000}, {"max_bytes": 1_000}], ids=str
)
async def test_a_durable_whose_orders_somebody_has_limited_is_set_back_where_it_stands(
    live: ConsumerHarness, limit: dict[str, int]
) -> None:
    """The broker refuses every order beyond such a limit: nothing would be read until somebody finds out why."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    (name,) = await durables(live)
    await api.change_consumer(live.nats, live.stream.name, name, limit)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)

    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("worker.running")
            await api.change_consumer(live.nats, live.stream.name, name, limit)
            await heard.wait("durable.freed")
            await live.publish(OrderPaid(), "o1", 2)
            await live.settled(s.Orders)


async def test_a_durable_that_somebody_pauses_is_told_once_and_read_when_it_goes_on(
    live: ConsumerHarness, told: list[str]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    until = datetime.now(UTC) + timedelta(hours=1)
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("worker.running")
            (name,) = await durables(live)
            await paused(live, name, until)
            await heard.wait("durable.paused")
            await live.publish(OrderPlaced("ann", 5), "o1", 1)
            await heard.wait("heart.beat", heard.counts["heart.beat"] + 3)
            assert heard.counts["durable.paused"] == 1
            assert await live.rows("orders") == []
            await paused(live, name, None)
            await live.settled(s.Orders)

    assert len([line for line in told if "is paused until" in line]) == 1
    assert len(await live.rows("orders")) == 1


async def paused(harness: ConsumerHarness, durable: str, until: datetime | None) -> None:
    """As `nats consumer pause` does it, and `resume`."""
    body = msgspec.json.encode({} if until is None else {"pause_until": until})
    await harness.nats.request(f"$JS.API.CONSUMER.PAUSE.{harness.stream.name}.{durable}", body)


async def ended(worker: ConsumerWorker) -> bool:
    return not worker.serving


async def test_a_durable_that_was_made_to_give_up_is_refused_until_it_is_mended(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)

    async def spoiled() -> None:
        async with live.running(s.Orders) as (worker,):
            await live.publish(OrderPlaced("ann", 5), "o1", 1)
            await live.settled(s.Orders)
            await changed(live, *await durables(live), max_deliver=5)
            await eventually(lambda: ended(worker))

    with pytest.raises(DurableUnfit, match="max_deliver is 5"):
        await spoiled()
    await live.publish(OrderPaid(), "o1", 2)
    await live.nats.jetstream().delete_consumer(live.stream.name, *await durables(live))
    await live.settle(s.Orders)

    assert [row[1] for row in await live.rows("orders")] == ["paid"]


async def changed(harness: ConsumerHarness, durable: str, **values: object) -> None:
    js = harness.nats.jetstream()
    config = (await js.consumer_info(harness.stream.name, durable)).config
    for name, value in values.items():
        setattr(config, name, value)
    await js.add_consumer(harness.stream.name, config)


async def restored(harness: ConsumerHarness, copy: str) -> None:
    """Put the database back to its copy, whoever is connected."""
    name = urlsplit(harness.database).path[1:]
    admin = await asyncpg.connect(harness.servers.postgres_url)
    try:
        await admin.execute(f"alter database {name} with allow_connections false")
        await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
        await admin.execute(f"drop database {name} with (force)")
        await admin.execute(f"alter database {copy} rename to {name}")
    finally:
        await admin.close()


async def copied(harness: ConsumerHarness) -> str:
    """A copy of the database as it is now, which nobody may use meanwhile."""
    name = urlsplit(harness.database).path[1:]
    admin = await asyncpg.connect(harness.servers.postgres_url)
    try:
        await copy_of(admin, name)
    finally:
        await admin.close()
    return f"{name}_copy"


async def test_a_database_restored_from_a_copy_reads_again_what_it_lacks(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(30)
    await live.settle(s.Orders, s.Spend)
    copy = await copied(live)
    await load.more(30)
    await live.settle(s.Orders, s.Spend)
    await restored(live, copy)

    with listening() as heard:
        async with live.running(s.Orders, s.Spend):
            await heard.wait("stream_guard.moved", 2)
            await live.settled(s.Orders, s.Spend)

    await load.check()
    assert await inspection.count(live, "audit", action="rewind") == 2


async def test_a_database_restored_under_working_processes_reads_again_what_it_lacks(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    tuned(live, policy={"ack_wait_s": 2.0})
    with listening() as heard:
        async with live.running(s.Orders, s.Spend, processes=2):
            await load.more(30)
            await live.settled(s.Orders, s.Spend)
            await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 4)
            copy = await copied(live)
            await load.more(30)
            await live.settled(s.Orders, s.Spend)
            await restored(live, copy)
            await heard.wait("worker.rejoins", 2)
            await load.more(5)
            await heard.wait("stream_guard.moved", 2)
            await live.settled(s.Orders, s.Spend)
            await eventually(lambda: rows_are(live, 65))

    await load.check()
    # Of two processes the one that has settled nothing since the backup cannot know that the database is older.
    await live.fetch("delete from {s}.incidents where kind = 'acked_elsewhere'")


async def rows_are(harness: ConsumerHarness, number: int) -> bool:
    return len(await harness.rows("orders")) == number


async def test_the_command_adopts_and_says_what_it_means(live: ConsumerHarness, tmp_path: Path) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders)
    await remake(live)
    addresses = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
    }

    done = await run_projectionist("adopt", "Orders", "--reason", "a new shop", cwd=tmp_path, **addresses)
    again = await run_projectionist("adopt", "Orders", "--reason", "once more", cwd=tmp_path, **addresses)

    assert (done.code, done.err) == (0, "")
    assert "incarnation 2, read from its first message" in done.out
    assert again.code == 1
    assert "is the one 'Orders' has read so far" in again.err


async def test_events_settled_between_two_looks_put_no_durable_ahead_of_its_stream(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    load = Load(live, s)

    def busy(ask: Any) -> Any:
        async def asked(*args: Any) -> Any:
            await load.more(1)
            await live.settled(s.Orders)
            return await ask(*args)

        return asked

    async with live.running(s.Orders):
        await load.more(1)
        await live.settled(s.Orders)
        with listening() as heard:
            for question in ("stream", "consumer"):
                monkeypatch.setattr(api, question, busy(getattr(api, question)))
            await heard.wait("stream_guard.recorded", 2)
            monkeypatch.undo()
            assert heard.counts["worker.rejoins"] == 0

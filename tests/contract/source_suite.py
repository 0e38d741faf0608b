"""What every Source promises, run against a real stream. A subclass says how to connect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import msgspec
import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig
from tests.support.peers import patient, peer_takes
from tests.support.servers import Servers, Stream
from tests.support.waiting import HANG_S, cancelled, eventually, listening

from projectionist.core.nats import connections
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.jetstream.ack_subject import parse_ack_subject
from projectionist.runner.jetstream.api import BrokerError, StreamMissing
from projectionist.runner.jetstream.durable import DurableUnfit, StreamUnfit
from projectionist.runner.jetstream.pull_source import BrokerProgress, JetStreamSource, SourceLost

MANY = 16 << 20
DURABLE = "orders"


async def quiet(_: Exception) -> None:
    """Servers are killed here."""


class Bench:
    """One stream, one client under test, and a client of the test's own."""

    def __init__(self, servers: Servers, stream: Stream, stack: AsyncExitStack) -> None:
        self.servers, self.stream, self._stack = servers, stream, stack
        self.client: Client
        self.js: JetStreamContext

    async def start(self, url: str) -> None:
        options: dict[str, Any] = {
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.05,
            "error_cb": quiet,
        }
        own = await patient(self.servers.nats_url, **options)
        self._stack.push_async_callback(own.close)
        self.js = own.jetstream()
        self.client = await self.connect(url)

    async def connect(self, url: str = "") -> Client:
        client = await connections.connect(Nats(url=(Url(url or self.servers.nats_url),)), name="test")
        self._stack.push_async_callback(client.close)
        return client

    def source(self, client: Client | None = None, **changes: Any) -> JetStreamSource:
        kept: dict[str, Any] = {
            "stream": self.stream.name,
            "durable": DURABLE,
            "subjects": Subjects([self.stream.subject("order", "{aggregate}")]),
            "batch": 10,
            "ack_wait_s": 30,
            "contiguous": True,
        }
        return JetStreamSource(client or self.client, **kept | changes)

    async def open(self, client: Client | None = None, **changes: Any) -> JetStreamSource:
        source = self.source(client, **changes)
        await source.open()
        self._stack.push_async_callback(source.close)
        return source

    async def publish(self, count: int, *tokens: str, headers: dict[str, str] | None = None) -> None:
        for number in range(count):
            subject = self.stream.subject(*(tokens or ("order", str(number))))
            await self.js.publish(subject, b"%d" % number, headers=headers)

    async def consumer(self) -> dict[str, Any]:
        answer = await self.client.request(
            f"$JS.API.CONSUMER.INFO.{self.stream.name}.{DURABLE}", timeout=HANG_S
        )
        found: dict[str, Any] = msgspec.json.decode(answer.data)
        return found


def sequences(arrivals: Sequence[Arrival]) -> list[int]:
    return [parse_ack_subject(arrival.reply)[0] for arrival in arrivals]


async def take_all(source: JetStreamSource, count: int, most: int = 1000) -> list[Arrival]:
    taken: list[Arrival] = []
    async with asyncio.timeout(HANG_S):
        while len(taken) < count:
            taken += await source.take(most, MANY, 0.005)
    return taken


async def nothing_comes(source: JetStreamSource, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await source.take(10, MANY, 0)
    except TimeoutError:
        return True
    return False


def named(bench: Bench, config: dict[str, Any]) -> ConsumerConfig:
    """A durable of our name, made by somebody else."""
    wanted = {"durable_name": DURABLE, "ack_policy": "explicit", "deliver_policy": "all"} | config
    made = msgspec.json.encode(wanted).replace(b"{name}", bench.stream.name.encode())
    return ConsumerConfig(**msgspec.json.decode(made))


class SourceSuite:
    """The promises."""

    @pytest.fixture
    def way(self) -> None:
        """What a subclass changes before a client is made."""

    @pytest_asyncio.fixture
    async def bench(self, servers: Servers, stream: Stream, way: None) -> AsyncIterator[Bench]:
        async with AsyncExitStack() as stack:
            bench = Bench(servers, stream, stack)
            await bench.start(servers.nats_url)
            yield bench

    async def test_every_event_arrives_once_and_in_order_with_subject_headers_and_data(
        self, bench: Bench
    ) -> None:
        await bench.publish(95, headers={"ce-id": "a b"})
        source = await bench.open()
        taken: list[Arrival] = []
        while len(taken) < 95:
            taken += await source.take(7, MANY, 0.005)
            assert source.ack(taken[-7:])
        assert sequences(taken) == list(range(1, 96))
        assert [a.data for a in taken] == [b"%d" % n for n in range(95)]
        assert taken[3].subject == bench.stream.subject("order", "3")
        assert taken[3].head is not None
        assert b"\r\nce-id: a b\r\n" in taken[3].head

    async def test_what_is_acked_is_done_and_what_is_not_comes_again_after_its_ack_wait(
        self, bench: Bench
    ) -> None:
        await bench.publish(5)
        source = await bench.open(ack_wait_s=1)
        taken = await take_all(source, 5)
        assert source.ack(taken[1:]) == 4
        (again,) = await take_all(source, 1)
        assert parse_ack_subject(again.reply)[:2] == (1, 2)
        assert source.ack([again]) == 1

        async def done() -> bool:
            return await source.pending() == BrokerProgress(5, 0, 0, 5)

        assert await eventually(done)

    async def test_an_ack_is_not_sent_after_its_deadline(self, bench: Bench) -> None:
        await bench.publish(3)
        source = await bench.open(ack_wait_s=2)
        taken = await take_all(source, 3)
        taken[0].received -= 1.7
        assert source.ack(taken) == 2
        assert source.in_progress(taken) == 2

    async def test_work_in_progress_keeps_its_delivery(self, bench: Bench) -> None:
        await bench.publish(1)
        source = await bench.open(ack_wait_s=1)
        taken = await take_all(source, 1)
        for _ in range(6):
            assert source.in_progress(taken) == 1
            assert await nothing_comes(source, 0.3)
        assert source.ack(taken) == 1

    async def test_a_lone_event_does_not_wait(self, bench: Bench) -> None:
        source = await bench.open()
        waiting = asyncio.ensure_future(source.take(10, MANY, 60))
        await bench.publish(1)
        async with asyncio.timeout(HANG_S):
            assert len(await waiting) == 1

    async def test_a_backlog_fills_the_batch(self, bench: Bench) -> None:
        await bench.publish(40)
        source = await bench.open(batch=20)
        assert len(await source.take(20, MANY, 5)) == 20
        assert len(await source.take(20, MANY, 5)) == 20

    async def test_a_batch_ends_by_bytes_too_and_a_larger_event_still_comes(self, bench: Bench) -> None:
        for _ in range(4):
            await bench.js.publish(bench.stream.subject("order", "1"), b"x" * 1000)
        source = await bench.open()

        async def buffered() -> bool:
            return len(source._pulls.arrivals) == 4

        await eventually(buffered)
        assert len(await source.take(10, 2500, 0)) == 2
        assert len(await source.take(10, 10, 0)) == 1
        assert len(await source.take(10, 10, 0)) == 1

    async def test_a_consumer_that_does_not_take_orders_no_more_and_loses_nothing(self, bench: Bench) -> None:
        await bench.publish(200)
        source = await bench.open(ack_wait_s=60)

        async def full() -> bool:
            return len(source._pulls.arrivals) == 20

        await eventually(full)
        assert (await source.pending()).num_pending == 180
        taken: list[Arrival] = []
        while len(taken) < 200:
            batch = await source.take(10, MANY, 0.005)
            assert len(source._pulls.arrivals) <= 20
            assert source.ack(batch) == len(batch)
            taken += batch
        assert sequences(taken) == list(range(1, 201))

    async def test_closing_gives_back_at_once_what_was_not_taken(self, bench: Bench) -> None:
        await bench.publish(20)
        first = await bench.open()
        taken = await take_all(first, 3, most=3)
        assert first.ack(taken) == len(taken)
        await first.close()
        second = await bench.open()
        async with asyncio.timeout(HANG_S):
            rest = await take_all(second, 20 - len(taken))
        assert sorted(sequences(taken) + sequences(rest)) == list(range(1, 21))

    async def test_two_processes_share_a_durable(self, bench: Bench) -> None:
        one, other = await bench.open(), await bench.open(await bench.connect())
        await bench.publish(60)
        seen: list[int] = []

        async def work(source: JetStreamSource) -> None:
            while True:
                batch = await source.take(5, MANY, 0.005)
                seen.extend(sequences(batch))
                source.ack(batch)

        async def all_seen() -> bool:
            return len(seen) == 60

        workers = [asyncio.ensure_future(work(source)) for source in (one, other)]
        await eventually(all_seen)
        await cancelled(*workers)
        assert sorted(seen) == list(range(1, 61))

    async def test_several_patterns_have_one_filter_that_lets_more_through(self, bench: Bench) -> None:
        patterns = [
            bench.stream.subject("order", "{aggregate}"),
            bench.stream.subject("refund", "{aggregate}"),
        ]
        for kind in ("order", "payment", "refund"):
            await bench.publish(3, kind, "7")
        source = await bench.open(subjects=Subjects(patterns))
        assert sequences(await take_all(source, 9)) == list(range(1, 10))
        assert (await bench.consumer())["config"]["filter_subject"] == bench.stream.subject("*", "*")

    async def test_the_durable_is_made_as_the_protocol_says(self, bench: Bench) -> None:
        await bench.open(batch=25, ack_wait_s=7)
        config = (await bench.consumer())["config"]
        assert config["filter_subject"] == bench.stream.subject("order", "*")
        assert config["ack_policy"] == "explicit"
        assert config["deliver_policy"] == "all"
        assert config["max_ack_pending"] == 150
        assert config["ack_wait"] == 7_000_000_000
        assert config["max_deliver"] == -1
        assert "backoff" not in config

    async def test_a_filter_stands_even_where_it_is_the_whole_stream(self, bench: Bench) -> None:
        await bench.open(subjects=Subjects([bench.stream.subjects]))
        assert (await bench.consumer())["config"]["filter_subject"] == bench.stream.subjects

    async def test_whoever_reads_everything_has_no_filter(self, bench: Bench) -> None:
        await bench.open(subjects=Subjects([">"]))
        assert "filter_subject" not in (await bench.consumer())["config"]

    @pytest.mark.parametrize(
        "config",
        [{}, {"filter_subject": "{name}.>"}, {"filter_subjects": ["{name}.order.*", "{name}.payment.*"]}],
    )
    async def test_a_durable_that_lets_more_through_is_brought_to_our_filter_where_it_stands(
        self, bench: Bench, config: dict[str, Any]
    ) -> None:
        await bench.publish(2, "order", "7")
        await bench.publish(2, "payment", "7")
        made = await bench.js.add_consumer(bench.stream.name, named(bench, config))
        source = await bench.open()
        assert sequences(await take_all(source, 2)) == [1, 2]
        found = await bench.consumer()
        assert found["config"]["filter_subject"] == bench.stream.subject("order", "*")
        assert "filter_subjects" not in found["config"]
        assert datetime.fromisoformat(found["created"]) == made.created

    @pytest.mark.parametrize(
        "config",
        [
            {"filter_subject": "{name}.payment.*"},
            {"filter_subjects": ["{name}.payment.*", "{name}.order.7"]},
        ],
    )
    async def test_a_durable_that_passed_over_ours_is_made_anew(
        self, bench: Bench, config: dict[str, Any]
    ) -> None:
        await bench.publish(1, "order", "6")
        await bench.publish(1, "order", "7")
        await bench.publish(1, "payment", "7")
        await bench.js.add_consumer(bench.stream.name, named(bench, config))
        for message in await peer_takes(bench.js, bench.stream.name, DURABLE, 1):
            await message.ack_sync()
        source = await bench.open()
        assert sequences(await take_all(source, 2)) == [1, 2]

    async def test_a_durable_of_other_sizes_is_brought_to_ours_and_goes_on(self, bench: Bench) -> None:
        await bench.publish(4)
        source = await bench.open()
        assert source.ack((await take_all(source, 4))[:2]) == 2
        await source.close()
        await bench.open(batch=50, ack_wait_s=9)
        found = await bench.consumer()
        assert (found["config"]["max_ack_pending"], found["config"]["ack_wait"]) == (300, 9_000_000_000)
        assert found["ack_floor"]["stream_seq"] == 2

    @pytest.mark.parametrize(
        "config",
        [
            {"deliver_policy": "new"},
            {"ack_policy": "all"},
            {"max_deliver": 5},
            {"backoff": [1.0, 2.0], "max_deliver": 3},
            {"headers_only": True},
            {"replay_policy": "original"},
        ],
    )
    async def test_a_durable_that_works_in_another_way_is_refused(
        self, bench: Bench, config: dict[str, Any]
    ) -> None:
        await bench.js.add_consumer(bench.stream.name, named(bench, config))
        with pytest.raises(DurableUnfit, match=next(iter(config))):
            await bench.source().open()

    @pytest.mark.parametrize("config", [{"max_waiting": 7}, {"mem_storage": True}])
    async def test_what_cannot_be_changed_of_a_durable_stays_as_somebody_made_it(
        self, bench: Bench, config: dict[str, Any]
    ) -> None:
        made = named(bench, config | {"filter_subject": "{name}.>"})
        await bench.js.add_consumer(bench.stream.name, made)
        source = bench.source()
        await source.open()
        await source.close()
        found = (await bench.js.consumer_info(bench.stream.name, DURABLE)).config
        assert found.filter_subject != bench.stream.subject(">")
        assert {name: getattr(found, name) for name in config} == config

    @pytest.mark.parametrize("retention", [RetentionPolicy.WORK_QUEUE, RetentionPolicy.INTEREST])
    async def test_a_stream_that_removes_what_is_acked_is_refused(
        self, bench: Bench, retention: RetentionPolicy
    ) -> None:
        await bench.js.delete_stream(bench.stream.name)
        await bench.js.add_stream(
            name=bench.stream.name, subjects=[bench.stream.subjects], retention=retention
        )
        with pytest.raises(StreamUnfit, match=retention.value):
            await bench.source(contiguous=False).open()

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ({"max_msgs_per_subject": 1}, "per subject"),
            ({"allow_rollup_hdrs": True}, "rollups"),
            ({"allow_msg_ttl": True}, "time to live"),
        ],
    )
    async def test_a_stream_that_forgets_single_events_is_refused_for_contiguous(
        self, bench: Bench, config: dict[str, Any], says: str
    ) -> None:
        await bench.js.delete_stream(bench.stream.name)
        await bench.js.add_stream(
            StreamConfig(name=bench.stream.name, subjects=[bench.stream.subjects], **config)
        )
        with pytest.raises(StreamUnfit, match=says):
            await bench.source().open()
        await bench.open(contiguous=False)

    async def test_subjects_that_the_stream_does_not_take_are_refused(self, bench: Bench) -> None:
        with pytest.raises(StreamUnfit, match="no subject is both"):
            await bench.source(subjects=Subjects(["elsewhere.{aggregate}"])).open()

    async def test_a_stream_that_is_missing_is_told_and_opens_once_it_is_there(self, bench: Bench) -> None:
        await bench.js.delete_stream(bench.stream.name)
        source = bench.source()
        with pytest.raises(StreamMissing, match=bench.stream.name):
            await source.open()
        await bench.js.add_stream(name=bench.stream.name, subjects=[bench.stream.subjects])
        await bench.publish(1)
        await source.open()
        assert len(await take_all(source, 1)) == 1
        await source.close()

    async def test_a_durable_that_is_deleted_is_told_and_delivers_everything_again(
        self, bench: Bench
    ) -> None:
        await bench.publish(3)
        source = await bench.open()
        first = await take_all(source, 3)
        assert source.ack(first) == 3
        waiting = asyncio.ensure_future(source.take(10, MANY, 0))
        await bench.js.delete_consumer(bench.stream.name, DURABLE)
        with pytest.raises(SourceLost):
            async with asyncio.timeout(HANG_S):
                await waiting
        await source.open()
        assert source.ack(first) == 0
        assert sequences(await take_all(source, 3)) == [1, 2, 3]

    async def test_a_stream_that_is_made_anew_is_told(self, bench: Bench) -> None:
        await bench.publish(3)
        source = await bench.open()
        first = await take_all(source, 3)
        await bench.js.delete_stream(bench.stream.name)
        await bench.js.add_stream(name=bench.stream.name, subjects=[bench.stream.subjects])
        with pytest.raises(SourceLost):
            async with asyncio.timeout(HANG_S):
                await source.take(10, MANY, 0)
        await bench.publish(3)
        await source.open()
        assert source.ack(first) == 0
        assert sequences(await take_all(source, 3)) == [1, 2, 3]

    async def test_a_killed_broker_is_pulled_from_again_and_hears_no_ack_from_before(
        self, bench: Bench
    ) -> None:
        await bench.publish(6)
        source = await bench.open()
        before = await take_all(source, 6)
        with listening() as heard:
            waiting = asyncio.ensure_future(source.take(10, MANY, 0))
            bench.servers.kill_nats()

            async def away() -> bool:
                return not bench.client.is_connected

            await eventually(away)
            assert source.ack(before) == 0
            bench.servers.up()
            await heard.wait("source.resumed")
        assert source.ack(before) == 0
        await eventually(lambda: publishes(bench))
        async with asyncio.timeout(HANG_S):
            after = await waiting
            while sequences(after)[-1] != 7:  # a killed broker may have forgotten what it had delivered
                after = await source.take(10, MANY, 0)
        assert source.ack(after[-1:]) == 1
        await bench.client.flush()
        assert (await source.pending()).ack_floor == 0

    async def test_silence_is_noticed_and_what_is_due_is_ordered_anew(self, bench: Bench) -> None:
        source = await bench.open(heartbeat_s=0.25)
        with listening() as heard:
            with pytest.MonkeyPatch.context() as lost:
                lost.setattr(source._pulls._connection, "post", lambda *_: True)
                source._pulls.renew()
                await heard.wait("source.silent")
            await bench.publish(2)
            assert len(await take_all(source, 2)) == 2

    async def test_heartbeats_are_heard_while_nothing_comes(self, bench: Bench) -> None:
        source = await bench.open(heartbeat_s=0.25)
        with listening() as heard:
            assert await nothing_comes(source, 2.5)
            assert heard.counts["source.silent"] == 0
        await bench.publish(1)
        assert len(await take_all(source, 1)) == 1

    async def test_a_closed_client_is_told(self, bench: Bench) -> None:
        source = await bench.open()
        await bench.client.close()
        with pytest.raises(BrokerError, match="closed"):
            await source.take(1, MANY, 0)


async def publishes(bench: Bench) -> bool:
    try:
        await bench.js.publish(bench.stream.subject("order", "7"), b"after", timeout=0.5)
    except (nats.errors.Error, TimeoutError):
        return False
    return True

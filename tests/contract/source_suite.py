"""What every Source promises, run against a real stream. A subclass says how to connect."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.source_bench import (
    MANY,
    Bench,
    OnBench,
    nothing_comes,
    publishes,
    sequences,
    take_all,
)
from tests.support.waiting import HANG_S, cancelled, eventually, listening

from projectionist.core.nats.fast_client import Arrival
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.jetstream.ack_subject import parse_ack_subject
from projectionist.runner.jetstream.api import BrokerError
from projectionist.runner.jetstream.pull_source import BrokerProgress, JetStreamSource


class SourceSuite(OnBench):
    """The promises."""

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

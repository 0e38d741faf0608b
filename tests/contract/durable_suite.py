"""What every Source promises about its durable and its stream: found, made, brought to ours, refused, or missed."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from nats.js.api import RetentionPolicy, StreamConfig
from tests.support.peers import peer_takes
from tests.support.source_bench import (
    DURABLE,
    MANY,
    Bench,
    OnBench,
    named,
    sequences,
    take_all,
)
from tests.support.waiting import HANG_S

from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.jetstream.api import StreamMissing
from projectionist.runner.jetstream.durable import DurableUnfit, StreamUnfit
from projectionist.runner.jetstream.pull_source import SourceLost


class DurableSuite(OnBench):
    """The promises about durables and streams, as tests."""

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

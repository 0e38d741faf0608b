"""One trace through real processes: producer, two runners, a relay that dies, another one, the provider."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.otlp import Sink, Span, sink
from tests.support.process import ROOT, projectionist
from tests.support.shop import shop
from tests.support.shop_app import environment
from tests.support.traced_app import APP

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def python(
    module: str, *arguments: str, env: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdout=PIPE,
        env={**os.environ, **env, "PYTHONPATH": path},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def publish(env: Mapping[str, str], *versions: int) -> None:
    async with python("tests.support.traced_producer", *map(str, versions), env=env) as producer:
        assert await producer.wait() == 0


async def test_one_trace_spans_producer_to_provider_across_parking_crash_and_retry(
    live: ConsumerHarness,
) -> None:
    await live.migrate(shop(live.stream).Orders)
    with sink() as collected:
        env = dict(environment(live, telemetry__endpoint=collected.url, telemetry__metrics_interval_s="0.5"))
        env["PROJECTIONIST_TELEMETRY__BAGGAGE"] = "tenant"
        async with python("tests.support.traced_provider", env=env) as provider:
            assert provider.stdout is not None
            port = int(await provider.stdout.readline())
            env |= {
                "PROJECTIONIST_PROVIDERS__email__URL": f"http://127.0.0.1:{port}/mails",
                "PROJECTIONIST_PROVIDERS__email__PRIVATE_HOSTS": "127.0.0.1",
                "PROJECTIONIST_PROVIDERS__email__PROFILE": "ietf-draft",
                "PROJECTIONIST_PROVIDERS__email__MEMORY_S": "86400",
            }
            await park_and_drain(live, env)
            await send_and_die_and_send_again(live, env)
            await collected.until(lambda: len(collected.find("POST")) == 2 and collected.find("send email"))
    assert_whole(collected)
    assert "projectionist.events" in collected.metrics  # where all stands is the observer's to tell


async def park_and_drain(live: ConsumerHarness, env: Mapping[str, str]) -> None:
    """Version 3 comes before 2: one process parks it, another drains it."""
    await publish(env, 1, 3)
    async with projectionist("run", APP, env=env) as runner:
        await runner.heard("batch.acked")
        await inspection.reaches(1, inspection.count_parked, live)
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0
    await publish(env, 2)
    async with projectionist("run", APP, env=env) as runner:
        await inspection.reaches(1, inspection.count_intents, live)
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0


async def send_and_die_and_send_again(live: ConsumerHarness, env: Mapping[str, str]) -> None:
    """One relay is killed when it has its reply; the next one asks again."""
    async with projectionist("relay", APP, env=env, kill_at={"relay.replied": 1}) as relay:
        assert (await relay.ended()).code == -signal.SIGKILL
    await live.value("update {s}.outbox set lease_until = clock_timestamp()")
    async with projectionist("relay", APP, env=env) as relay:
        await inspection.reaches(1, inspection.count_intents, live, state="sent")
        relay.signal(signal.SIGTERM)
        assert (await relay.ended()).code == 0


def assert_whole(collected: Sink) -> None:
    """The payment's story, by ids, kinds, parents and links."""
    sends = [span for span in collected.find("send") if span.service == "producer"]
    paid = next(span for span in sends if span.attributes["messaging.message.id"] == "o1:3")
    assert paid.kind == "PRODUCER"
    assert all("o1" not in span.name for span in collected.spans), "no name holds an id"

    parked, drained = collected.find("process", messaging__message__id="o1:3")
    assert [parked.outcome, drained.outcome] == ["parked", "applied"]
    assert [parked.attributes["projectionist.drained"], drained.attributes["projectionist.drained"]] == [
        False,
        True,
    ]
    for span in (parked, drained):
        assert (span.trace, span.parent, span.kind) == (paid.trace, paid.id, "CONSUMER")
        assert span.schema_url == "https://opentelemetry.io/schemas/1.44.0"

    first, second = collected.find("receive")
    assert [first.kind, first.parent] == ["CLIENT", ""]
    assert (paid.trace, paid.id) in first.links
    assert (first.trace, first.id) in parked.links
    assert first.attributes["messaging.batch.message_count"] == 2
    for span in (first, parked, paid, *collected.find("settle")):
        assert span.attributes["server.address"] == "127.0.0.1"
        assert int(span.attributes["messaging.client.id"]) > 0
    assert (
        first.attributes["messaging.consumer.group.name"]
        == parked.attributes["messaging.consumer.group.name"]
    )
    assert all(one.attributes["server.address"] for one in collected.find("apply batch"))
    settles = collected.find("settle")
    assert {span.parent for span in settles} == {first.id, second.id}
    assert {first.id, second.id} <= {span.parent for span in collected.find("apply batch")}

    (attempt,) = collected.find("send email")
    assert (attempt.trace, attempt.parent) == (paid.trace, drained.id)
    assert (attempt.kind, attempt.outcome) == ("CLIENT", "sent")
    assert attempt.attributes["projectionist.attempt"] == 2, "the first one died with its relay"
    assert attempt.attributes["server.address"] == "127.0.0.1"

    calls = collected.find("POST")
    assert {call.trace for call in calls} == {paid.trace}
    assert calls[1].parent == attempt.id
    assert calls[0].parent not in {span.id for span in collected.spans}
    assert len({call.attributes["idempotency-key"] for call in calls}) == 1
    assert {call.attributes["baggage"] for call in calls} == {"tenant=acme"}
    assert attempt.attributes["projectionist.baggage.tenant"] == "acme"
    _in_order(paid, parked, drained, attempt, calls[1])


def _in_order(*spans: Span) -> None:
    assert [span.start_ns for span in spans] == sorted(span.start_ns for span in spans)

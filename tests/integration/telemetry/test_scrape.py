"""What processes show when they are asked, beside what the page and the code say they show."""

from __future__ import annotations

import re
import signal
import socket
from collections import defaultdict
from collections.abc import Mapping

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import gateway
from tests.support.otlp import sink
from tests.support.process import ROOT, projectionist
from tests.support.scrape import families, free_port, get, series
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import environment
from tests.support.traced_app import APP
from tests.support.waiting import eventually

from projectionist.core.telemetry import instruments, names
from projectionist.core.telemetry.instruments import METRICS, Metric, scraped

pytestmark = pytest.mark.asyncio

PAGE = (ROOT / "docs" / "telemetry.md").read_text("utf-8")


def telling(live: ConsumerHarness, port: int) -> dict[str, str]:
    return {
        **environment(
            live, poison="bad", telemetry__exporter="prometheus", telemetry__metrics_interval_s="0.2"
        ),
        "PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{port}",
        "PROJECTIONIST_PROVIDERS__email__URL": "https://mail.example/send",
        "PROJECTIONIST_PROVIDERS__email__PROFILE": "ietf-draft",
        "PROJECTIONIST_PROVIDERS__email__MEMORY_S": "86400",
    }


async def scrape_with(port: int, needle: str) -> str:
    """A scrape that holds `needle`."""

    async def there() -> str:
        text = (await get(port, "/metrics")).text
        assert needle in text, text
        return text

    return await eventually(there)


async def some_history(live: ConsumerHarness) -> None:
    """A plain order with a repeat, a gap, a poison, and something nobody can read."""
    for version, event in enumerate([OrderPlaced("ann", 1), OrderPaid()], 1):
        await live.publish(
            event, "o1", version, id=f"o1:{version}", headers={"ce-time": "2026-01-01T00:00:00Z"}
        )
    await live.publish(OrderPaid(), "o1", 2, id="o1:2")
    await live.publish(OrderPlaced("ann", 1), "o2", 1)
    await live.publish(OrderNoted("bad"), "o2", 2)
    await live.publish(OrderNoted("later"), "o3", 3)
    await live.publish_raw(b"{}", None, "o4")


async def test_page_code_and_a_real_scrape_name_the_same_metrics(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    await some_history(live)
    port, other = free_port(), free_port()
    async with projectionist("run", APP, env=telling(live, port)) as runner:
        await runner.heard("worker.running")
        await inspection.reaches(1, inspection.count, live, "counters", outcome="quarantined")
        # a failure, and a gap: whether that is found to be for good by then is a matter of its grace
        still = "bool_or(aggregate = 'order/o2' and head = 'waiting') and count(*) = 2"
        await live.value_of(f"select {still} from {{s}}.positions where head in ('waiting', 'gap')", True)
        shown = await scrape_with(port, "projectionist_batches_total{")
        async with projectionist("observe", APP, env=telling(live, other)) as observer:
            await observer.heard("telemetry.observed")
            stands = await scrape_with(other, "projectionist_quarantine{")
            assert_numbers(shown + stands)
            observer.signal(signal.SIGTERM)
            assert (await observer.ended()).code == 0
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0
    async with projectionist("relay", APP, env=telling(live, port)) as relay:
        await relay.heard("relay.running")
        shown_too = await scrape_with(port, "messaging_client_operation_duration_seconds_bucket")
        relay.signal(signal.SIGTERM)
        assert (await relay.ended()).code == 0

    types = {**families(shown), **families(stands), **families(shown_too)}
    of_commands = {
        instruments.READING_DONE.name,
        instruments.READING_EXPECTED.name,
    }  # over before anybody could scrape them
    scrapable = [one for one in METRICS.values() if one.name not in of_commands]
    assert {scraped(one): str(one.instrument) for one in scrapable} == {
        name: kind for name, kind in types.items() if name != "target_info"
    }
    told = re.findall(
        r"^\| `([a-z.]+)` \| `([a-z_]+)` \| (\w+) \| `(.*?)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE
    )
    assert sorted(told) == sorted(_line(one) for one in METRICS.values())


async def test_outcomes_are_told_by_source_where_sources_are_listed(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    await some_history(live)
    await live.publish(OrderPlaced("bob", 1), "t1", 1, id="t1:1", source="till")
    await live.publish(OrderPlaced("bob", 1), "t1", 1, id="t1:1", source="till")
    await live.publish(OrderNoted("bad"), "t1", 2, source="till")
    port = free_port()
    env = telling(live, port) | {"PROJECTIONIST_TELEMETRY__SOURCES": "till,desk"}
    async with projectionist("run", APP, env=env) as runner:
        await inspection.reaches(1, inspection.count, live, "counters", outcome="quarantined")
        await inspection.reaches(4, inspection.count_outcomes, live, "applied")
        await inspection.reaches(2, inspection.count_outcomes, live, "failed")
        await inspection.reaches(2, inspection.count_outcomes, live, "duplicate")

        async def told() -> dict[tuple[str, str], float]:
            found: dict[tuple[str, str], float] = defaultdict(float)
            for labels, n in series((await get(port, "/metrics")).text, "projectionist_events_total").items():
                one = dict(labels)
                if one["projectionist_consumer"] == "Orders":
                    found[one.get("cloudevents_event_source") or "-", one["projectionist_outcome"]] += n
            assert found["-", "applied"] == 3, found
            assert found["-", "quarantined"] == 1, found
            assert found["till", "duplicate"] == found["till", "failed"] == 1, found
            return found

        found = await eventually(told)
        runner.signal(signal.SIGTERM)
        await runner.ended()
    of_the_till = {outcome: n for (source, outcome), n in found.items() if source == "till" and n}
    assert of_the_till == {"applied": 1, "duplicate": 1, "failed": 1, "parked_failed": 1}
    assert {source for source, _ in found} == {"-", "till"}


def _line(one: Metric) -> tuple[str, ...]:
    attributes = ", ".join(f"`{name}`" for name in one.attributes) or "none"
    return one.name, scraped(one), str(one.instrument), one.unit, one.text, attributes


def assert_numbers(text: str) -> None:
    """The history, told in numbers."""

    def of(name: str, **labels: str) -> float:
        wanted = {("projectionist_consumer", "Orders"), *labels.items()}
        return sum(value for found, value in series(text, name).items() if wanted <= set(found))

    assert of("projectionist_events_total", projectionist_outcome="applied") == 3
    assert of("projectionist_events_total", projectionist_outcome="duplicate") == 1
    assert of("projectionist_failures_total", error_type="ValueError") == 1
    assert of("projectionist_inbox_outcomes", projectionist_outcome="applied") == 3
    assert of("messaging_client_consumed_messages_total") == 7
    assert of("projectionist_heads", projectionist_state="waiting") + of("projectionist_gaps") == 2
    assert of("projectionist_parked", projectionist_cause="failed") == 1
    assert of("projectionist_parked", projectionist_cause="gap") == 1
    assert of("projectionist_quarantine") == 1
    assert of("projectionist_consumer_runners") == 1
    assert of("projectionist_policy_threshold", projectionist_threshold="max_pending_age_s") == 300
    assert of("projectionist_latency_seconds_count") >= 2
    assert of("projectionist_event_age_seconds_count") >= 1
    assert of("projectionist_loop_age_seconds", projectionist_loop="settle") < 10


async def test_the_page_names_every_span_and_attribute() -> None:
    attributes = {
        value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch(r"[a-z]+(\.[a-z_]+)+", value)
    }
    assert {f"`{value}`" for value in attributes} - set(re.findall(r"`[^`\n]+`", PAGE)) == set()
    assert [name for name in names.SPANS if f"`{name}`" not in PAGE] == []


async def test_health_tells_life_from_readiness(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    port = free_port()
    env: Mapping[str, str] = environment(live, telemetry__listen=f":{port}")
    async with projectionist("run", APP, env={**telling(live, port), **env}) as runner:
        await runner.heard("worker.running")
        for path in ("/live", "/ready", "/startup"):
            answer = await get(port, path)
            assert (answer.status, answer.text) == (200, '{"status":"ok","why":[]}\n'), path
        assert (await get(port, "/")).status == 404
        assert (await get(port, "/live", "POST")).status == 405
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0


async def test_while_postgresql_is_away_a_process_lives_and_is_not_ready(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    port = free_port()
    async with gateway(live.database) as way:
        env = {
            **telling(live, port),
            "PROJECTIONIST_POSTGRES__URL": way.url,
            "PROJECTIONIST_RUN__HEARTBEAT_S": "0.2",
        }
        async with projectionist("run", APP, env=env) as runner:
            await runner.heard("worker.running")
            await becomes(port, "/ready", 200)
            way.refusing = True
            way.cut()
            await becomes(port, "/ready", 503, "PostgreSQL cannot be used")
            assert [(await get(port, path)).status for path in ("/live", "/startup")] == [200, 200]
            await scrape_with(port, 'projectionist_server="postgresql"} 0.0')
            way.refusing = False
            await becomes(port, "/ready", 200)
            await scrape_with(port, 'projectionist_server="postgresql"} 1.0')
            runner.signal(signal.SIGTERM)
            assert (await runner.ended()).code == 0


async def test_a_collector_that_is_away_costs_nothing_but_a_line(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    traced = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    for number in range(20):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, headers=traced)
    env = environment(
        live,
        telemetry__endpoint="http://127.0.0.1:1",
        telemetry__metrics_interval_s="0.2",
        run__heartbeat_s="0.1",
    )
    async with projectionist("run", APP, env=env) as runner:
        await runner.heard("worker.running")
        await inspection.reaches(20, inspection.count_inbox, live, state="applied")
        await runner.heard("heart.beat", 20)
        runner.signal(signal.SIGTERM)
        ended = await runner.ended()
    assert ended.code == 0
    assert ended.err.count("127.0.0.1") <= 4, ended.err


async def test_a_port_that_is_taken_is_told_at_the_start(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        env = telling(live, taken.getsockname()[1])
        async with projectionist("run", APP, env=env) as runner:
            ended = await runner.ended()
    assert ended.code == 1
    assert "Give each process on this machine a port of its own" in ended.err


async def becomes(port: int, path: str, status: int, why: str = "") -> None:
    """Return once this is the answer."""

    async def there() -> bool:
        answer = await get(port, path)
        assert answer.status == status, answer.text
        assert why in answer.text, answer.text
        return True

    await eventually(there)


async def test_a_process_that_waits_for_its_stream_says_so_when_asked(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    await live.nats.jetstream().delete_stream(live.stream.name)
    port = free_port()
    async with projectionist("run", APP, env=telling(live, port)) as runner:
        await runner.heard("worker.waiting")
        why = (
            f"Orders: waiting for stream {live.stream.name}, which does not exist yet. `projectionist migrate"
        )
        await becomes(port, "/ready", 503, why)
        assert (await get(port, "/live")).status == 200
        await live.nats.jetstream().add_stream(name=live.stream.name, subjects=[live.stream.subjects])
        await becomes(port, "/ready", 200)
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0
    live.tampered = True


async def test_a_command_that_reads_for_long_tells_how_far_it_is(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(shop(live.stream).Orders)
    with sink() as collected:
        env = {**environment(live), "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url}
        async with projectionist("verify", APP, "Orders", "--all", env=env) as verify:
            ended = await verify.ended()
        assert ended.code == 0, ended.err
        assert {"projectionist.reading.done", "projectionist.reading.expected"} <= collected.metrics

"""What is told about a process, piece by piece: contexts, signs of life, log lines, the listener, systemd."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from tests.support.scrape import free_port, get
from tests.support.waiting import HANG_S, eventually

from projectionist.core import clock
from projectionist.core.cloudevents import is_traceparent
from projectionist.core.errors import SettingsError
from projectionist.core.log_format import MOST_KINDS, JsonFormatter, RateLimitFilter, TextFormatter, facts
from projectionist.core.settings.listen_address import address
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Telemetry, load
from projectionist.core.telemetry import (
    baggage,
    liveness,
    metrics,
    names,
    otel_setup,
    server_attributes,
    tracing,
)
from projectionist.core.telemetry import health_server as healths
from projectionist.core.telemetry.health_server import Health, HealthServer, is_own_host

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """No loop has given a sign, and the clock stands where the test says."""
    now = {"now": 100.0}
    monkeypatch.setattr(liveness, "_signs", {})
    monkeypatch.setattr(clock, "now", lambda: now["now"])
    return now


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 1))
def test_a_context_is_read_and_written_alike(trace: int, span: int, flags: int) -> None:
    context = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags))
    text = tracing.written(context)
    assert is_traceparent(text)
    assert tracing.context_of(text) == context
    assert tracing.is_sampled(text) is bool(flags)


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_only_the_last_bit_of_the_flags_asks_for_spans(flags: str, sampled: bool) -> None:
    assert tracing.is_sampled(PARENT[:-2] + flags) is sampled


def test_without_a_provider_nobody_listens() -> None:
    assert not tracing.on()
    assert not metrics.on()


def test_links_beyond_what_is_kept_are_counted_on_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(tracing, "tracer", lambda: provider.get_tracer("test"))
    links = tuple(SpanContext(1, n, is_remote=True) for n in range(1, 502))
    tracing.span("receive S", SpanKind.CLIENT, None, {}, 1, links).end()
    (span,) = kept.get_finished_spans()
    assert len(span.links) == 128
    assert dict(span.attributes or {}) == {names.LINKS_OMITTED: 373}


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (None, {}),
        (b"NATS/1.0\r\n\r\n", {}),
        (b"NATS/1.0\r\nbaggage: a=1,b=2\r\n\r\n", {"a": "1"}),
        (b"NATS/1.0\r\nBAGGAGE:  a = x%C3%A9 ;meta=1\r\nbaggage: c=3\r\n\r\n", {"a": "x\u00e9", "c": "3"}),
        (b"NATS/1.0\r\nbaggage: a,=1,a=%0A,c=" + b"v" * 300 + b"\r\n\r\n", {}),
        (b"NATS/1.0\r\nbaggage: " + b"x=1," * 100 + b"a=1\r\n\r\n", {}),
        (b"NATS/1.0\r\nbaggage: a=\xff\r\nx: a=2\r\n\r\n", {"a": "\ufffd"}),
    ],
)
def test_of_baggage_only_allowed_short_printable_members_are_read(
    head: bytes | None, found: dict[str, str]
) -> None:
    read = baggage.attributes(baggage.of_headers(head, {"a", "c"}))
    assert read == {f"projectionist.baggage.{key}": value for key, value in found.items()}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (None, {}),
        ("postgresql://me:secret@db.example:5432/shop", {"server.address": "db.example"}),
        ("postgresql://one,two/shop", {}),
        ("postgresql:///shop?host=/run/postgresql", {"server.address": "/run/postgresql"}),
    ],
)
def test_a_database_is_told_by_its_host_alone(url: str | None, found: dict[str, str]) -> None:
    assert server_attributes.database(None if url is None else Url(url)) == found


def test_a_loop_that_stays_away_too_long_is_late(signs: dict[str, float]) -> None:
    liveness.beat("keep", "Orders", within_s=10)
    liveness.beat("settle", "Orders", within_s=5, vital=False)
    signs["now"] += 8
    assert (liveness.late(vital=True), liveness.late(vital=False)) == ([], ["settle Orders"])
    assert liveness.ages() == {("keep", "Orders"): 8, ("settle", "Orders"): 8}
    signs["now"] += 8
    assert liveness.late(vital=True) == ["keep Orders"]
    liveness.ended("keep", "Orders")
    assert liveness.late(vital=True) == []


def test_servers_that_are_away_make_a_process_unready_and_not_dead(signs: dict[str, float]) -> None:
    health = Health()
    liveness.beat("keep", within_s=10)
    assert health.ready() == ["starting"]
    health.started, health.troubles = True, lambda: ["NATS cannot be reached"]
    assert (health.live(), health.ready()) == ([], ["NATS cannot be reached"])
    signs["now"] += 11
    assert (health.live(), health.ready()) == (["keep"], ["keep", "NATS cannot be reached"])


@pytest.mark.asyncio
async def test_the_listener_answers_what_is_asked_and_refuses_the_rest(signs: dict[str, float]) -> None:
    health, port = Health(), free_port()
    task = asyncio.create_task(HealthServer(f":{port}", health, lambda: b"metrics here\n").run())
    await eventually(partial(answers, port))
    assert (await get(port, "/startup")).status == 503
    assert json.loads((await get(port, "/ready")).text) == {
        "status": "failing",
        "why": ["starting"],
    }
    health.troubles = lambda: ["\x1b[2J\x9b31m\u202eköln"]
    told = (await get(port, "/ready")).text
    assert {letter for letter in told if not letter.isprintable()} == {"\n"}
    assert json.loads(told)["why"] == ["starting", "\x1b[2J\x9b31m\u202eköln"]
    health.troubles = list
    health.started = True
    assert [(await get(port, path)).status for path in ("/live", "/ready", "/startup")] == [200] * 3
    assert (await get(port, "/metrics?x=1")).text == "metrics here\n"
    assert [(await get(port, "/secrets")).status, (await get(port, "/live", "DELETE")).status] == [404, 405]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"x" * 20_000)
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(SettingsError, match=f"cannot listen at 127.0.0.1:{port}"):
        await HealthServer(f":{port}", health, None).run()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        *(
            (name, True)
            for name in ("", "localhost", "LOCALHOST:9464", "127.0.0.1:9464", "[::1]:9464", "runner")
        ),
        *(
            (name, True)
            for name in ("10.1.2.3", "metrics.example:9464", "Metrics.Example.", "[::ffff:10.1.2.3]")
        ),
        *((name, False) for name in ("evil.example", "evil.example:9464", "127.0.0.1.evil.example", "a@b.c")),
    ],
)
def test_a_request_for_a_name_of_somebody_else_is_not_ours(host: str, is_ours: bool) -> None:
    assert is_own_host(f" {host}", ["metrics.example"]) is is_ours


@pytest.mark.asyncio
async def test_the_listener_answers_no_page_that_a_name_leads_here_and_so_many_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(healths, "MOST_OPEN", 2)
    port = free_port()
    server = HealthServer(f":{port}", Health(), lambda: b"secret\n", ["metrics.example"])
    task = asyncio.create_task(server.run())
    await eventually(partial(answers, port))
    for host, status in (("evil.example", b"421"), ("metrics.example", b"200")):
        assert (await asked(port, f"Host: {host}\r\n"))[9:12] == status
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    await eventually(partial(says, port, b""))
    for _, writer in idle:
        await closed(writer)
    await eventually(partial(says, port, b"200"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.asyncio
async def test_a_scrape_that_takes_long_keeps_nobody_else_waiting_and_goes_alone() -> None:
    health, port, free, at_once = Health(), free_port(), threading.Event(), []
    health.started = True

    def scrape() -> bytes:
        at_once.append(threading.current_thread())
        assert free.wait(HANG_S)
        return str(len(at_once)).encode()

    task = asyncio.create_task(HealthServer(f":{port}", health, scrape).run())
    await eventually(partial(answers, port))
    scrapes = [asyncio.create_task(get(port, "/metrics")) for _ in range(2)]
    await eventually(partial(_has_begun, at_once))
    assert (await get(port, "/live")).status == 200
    assert len(at_once) == 1
    assert at_once[0] is not threading.current_thread()
    free.set()
    assert {one.text for one in await asyncio.gather(*scrapes)} == {"1", "2"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _has_begun(scrapes: list[threading.Thread]) -> bool:
    return bool(scrapes)


async def asked(port: int, headers: str = "") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\n{headers}\r\n".encode())
    found = b""
    with suppress(OSError):
        found = await reader.read()
    await closed(writer)
    return found


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def says(port: int, status: bytes) -> bool:
    return (await asked(port))[9:12] == status


@pytest.mark.parametrize("wrong", ["here", "x9464", "here:", ":0", ":70000", ":٣"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        address(wrong)


def test_an_address_without_a_host_is_this_machine() -> None:
    assert [address(text) for text in (":1", "0.0.0.0:2", "[::1]:3")] == [
        ("127.0.0.1", 1),
        ("0.0.0.0", 2),  # noqa: S104 - as above
        ("::1", 3),
    ]


@pytest.mark.asyncio
async def test_systemd_hears_ready_watchdog_and_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signs: dict[str, float]
) -> None:
    hears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    hears.bind(str(tmp_path / "notify"))
    hears.setblocking(False)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    health = Health()
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(healths.answer(None, health, None))
    assert await loop.sock_recv(hears, 64) == b"WATCHDOG=1"
    health.started = True
    heard = {await loop.sock_recv(hears, 64) for _ in range(3)}
    assert heard == {b"READY=1", b"WATCHDOG=1"}
    liveness.beat("keep", within_s=1)
    signs["now"] += 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    while (last := await loop.sock_recv(hears, 64)) == b"WATCHDOG=1":
        pass
    assert last == b"STOPPING=1"
    hears.close()


async def answers(port: int) -> bool:
    assert (await get(port, "/live")).status
    return True


def record(**about: object) -> logging.LogRecord:
    made = logging.LogRecord("projectionist.runner", logging.INFO, __file__, 1, "%s: parked", ("x",), None)
    made.facts = facts(**about)["facts"]  # type: ignore[arg-type]  # as `extra` does
    return made


def test_a_line_for_people_bears_its_ids_and_one_for_programs_all_its_facts() -> None:
    line = record(consumer="Orders", message_id="e1", traceparent=PARENT, count=3)
    assert (
        TextFormatter()
        .format(line)
        .endswith("x: parked message_id=e1 trace_id=0af7651916cd43dd8448eb211c80319c")
    )
    found = json.loads(JsonFormatter().format(line))
    assert found | {"time": ""} == {
        "time": "",
        "level": "INFO",
        "logger": "projectionist.runner",
        "message": "x: parked",
        "consumer": "Orders",
        "message_id": "e1",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "count": 3,
    }


def test_the_text_of_an_exception_is_in_no_line_for_programs() -> None:
    line = record()
    line.exc_info = (ValueError, ValueError("secret"), None)
    assert json.loads(JsonFormatter().format(line))["error"] == "ValueError"
    assert "secret" not in JsonFormatter().format(line)


def test_lines_of_one_kind_are_held_back_and_counted(signs: dict[str, float]) -> None:
    repeats = RateLimitFilter(every_s=10)
    kinds = [record(kind="duplicate", consumer="Orders") for _ in range(4)]
    assert [repeats.filter(line) for line in kinds[:3]] == [True, False, False]
    assert repeats.filter(record(kind="duplicate", consumer="Spend"))
    assert all(repeats.filter(record()) for _ in range(3)), "a change of state is always told"
    signs["now"] += 11
    assert repeats.filter(kinds[3])
    assert kinds[3].getMessage() == "x: parked (and 2 more such lines since)"


def test_lines_of_ever_new_kinds_take_no_memory(signs: dict[str, float]) -> None:
    repeats = RateLimitFilter(every_s=10)
    for n in range(3 * MOST_KINDS):
        assert repeats.filter(record(kind=f"new {n}", consumer="Orders"))
    assert len(repeats._kept) == MOST_KINDS
    signs["now"] += 11
    repeats.filter(record(kind="newer", consumer="Orders"))
    assert list(repeats._kept) == [("projectionist.runner", "newer", "Orders")]


def test_a_library_that_says_the_same_again_and_again_is_heard_once(signs: dict[str, float]) -> None:
    repeats = RateLimitFilter(every_s=300, every=True)
    assert [repeats.filter(record()) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"endpoint": Url("ftp://ann:c4nary@collector:4317")},
            r"ftp://\*\*\*@collector:4317 is not http://host",
        ),
        ({"listen": "here"}, "is not host:port"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Telemetry(**wrong)


def test_prometheus_listens_at_this_machine_and_an_endpoint_alone_gets_metrics_too() -> None:
    assert Telemetry().listens is None
    assert Telemetry(exporter="prometheus").listens == "127.0.0.1:9464"
    assert Telemetry(exporter="prometheus", endpoint=Url("http://c:4318")).metrics == "prometheus"
    assert (Telemetry(endpoint=Url("http://c:4318")).metrics, Telemetry().metrics) == ("otlp", "none")


def test_the_password_of_an_endpoint_is_in_no_error(tmp_path: Path) -> None:
    for text in ("ftp://ann:c4nary@collector", "http//ann:c4nary@collector"):
        with pytest.raises(SettingsError) as told:
            load(tmp_path / "none.toml", {"PROJECTIONIST_TELEMETRY__ENDPOINT": text})
        assert "c4nary" not in str(told.value)
    assert "c4nary" not in repr(Telemetry(endpoint=Url("http://ann:c4nary@collector")))


def test_opentelemetry_s_own_endpoint_counts_where_none_is_set(tmp_path: Path) -> None:
    """For everything that asks: what is exported, whether a backlog is monitored, what the doctor says."""
    (tmp_path / "own.toml").write_text('[telemetry]\nendpoint = "http://mine:4318"')
    (tmp_path / "none.toml").write_text("")
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    found = load(tmp_path / "none.toml", env).telemetry
    assert (found.endpoint, found.metrics, found.monitored) == (Url("http://collector:4318"), "otlp", True)
    assert load(tmp_path / "own.toml", env).telemetry.endpoint == Url("http://mine:4318")
    assert load(tmp_path / "none.toml", {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}).telemetry.endpoint is None
    with pytest.raises(
        SettingsError, match=r"telemetry.endpoint \(OTEL_EXPORTER_OTLP_ENDPOINT\): expected http://host:port"
    ):
        load(tmp_path / "none.toml", {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"})


def test_opentelemetry_s_own_names_go_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert otel_setup._resource("projectionist-run").attributes["service.name"] == "projectionist-run"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,service.instance.id=7,deployment=blue")
    found = otel_setup._resource("projectionist-run").attributes
    assert (found["service.name"], found["service.instance.id"], found["deployment"]) == ("shop", "7", "blue")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "till")
    assert otel_setup._resource("projectionist-run").attributes["service.name"] == "till"

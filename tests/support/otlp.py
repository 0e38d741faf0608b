"""An OTLP/HTTP collector that keeps what it gets: real exports of real processes, read back as plain values."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as _Span
from tests.support.waiting import HANG_S, eventually

KINDS = {number: name.removeprefix("SPAN_KIND_") for name, number in _Span.SpanKind.items()}


class Span(msgspec.Struct, frozen=True):
    """A span as it was exported."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    failed: bool
    schema_url: str

    @property
    def outcome(self) -> Any:
        """Return what became of it, where it says."""
        return self.attributes.get("projectionist.outcome")


class Sink:
    """What has been exported so far."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: set[str] = set()
        self.raw: list[bytes] = []
        self.url = ""

    def take(self, path: str, body: bytes) -> None:
        """Keep one export."""
        self.raw.append(body)
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest()
            traces.ParseFromString(body)
            for resource in traces.resource_spans:
                service = _plain(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    self.spans += [_span(service, scope.schema_url, one) for one in scope.spans]
        elif path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest()
            metrics.ParseFromString(body)
            self.metrics |= {
                metric.name
                for resource in metrics.resource_metrics
                for scope in resource.scope_metrics
                for metric in scope.metrics
            }

    def find(self, name: str, **attributes: object) -> list[Span]:
        """Spans of a name (its first word is enough) and these attributes, the oldest first."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        found = [
            span
            for span in self.spans
            if (span.name == name or span.name.startswith(f"{name} "))
            and all(span.attributes.get(key) == value for key, value in wanted.items())
        ]
        return sorted(found, key=lambda span: span.start_ns)

    async def until(self, ask: Callable[[], object], seconds: float = HANG_S) -> None:
        """Wait until it has what is asked for."""

        async def there() -> bool:
            assert ask(), sorted({(s.service, s.name, s.outcome) for s in self.spans}, key=str)
            return True

        await eventually(there, seconds)


@contextmanager
def sink() -> Iterator[Sink]:
    """A collector on a port of this machine."""
    kept = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            kept.take(self.path, gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _span(service: str, schema_url: str, one: Any) -> Span:
    return Span(
        service=service,
        name=one.name,
        kind=KINDS[one.kind],
        trace=one.trace_id.hex(),
        id=one.span_id.hex(),
        parent=one.parent_span_id.hex(),
        start_ns=one.start_time_unix_nano,
        end_ns=one.end_time_unix_nano,
        attributes=_plain(one.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in one.links],
        failed=one.status.code == 2,
        schema_url=schema_url,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}

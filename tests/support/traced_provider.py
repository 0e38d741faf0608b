"""An HTTP provider in a process of its own that traces what it is asked: it prints its port and keeps no secret."""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.trace import SpanKind

from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Telemetry
from projectionist.core.telemetry import tracing
from projectionist.core.telemetry.otel_setup import exporting


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        parent = tracing.under(tracing.context_of(self.headers["traceparent"]))
        attributes = {name: self.headers[name] or "" for name in ("idempotency-key", "baggage")}
        with tracing.tracer().start_as_current_span("POST", parent, SpanKind.SERVER, attributes):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    with exporting(Telemetry(endpoint=Url(os.environ["PROJECTIONIST_TELEMETRY__ENDPOINT"])), "provider"):
        server = HTTPServer(("127.0.0.1", 0), _Handler)
        print(server.server_address[1], flush=True)  # noqa: T201 - for whoever started it
        server.serve_forever()

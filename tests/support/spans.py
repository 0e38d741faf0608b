"""Spans kept where they are made, for tests within one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from projectionist.core.telemetry import tracing


class Kept:
    """The spans that were ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        """Those whose name begins with this word, as they ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]


def attributes(span: ReadableSpan) -> dict[str, object]:
    """Return what a span says."""
    return dict(span.attributes or {})


def listening_to_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """Somebody listens."""
    found = Kept()
    monkeypatch.setattr(tracing, "on", lambda: True)
    monkeypatch.setattr(tracing, "tracer", lambda: found.provider.get_tracer("test"))
    yield found
    found.provider.shutdown()

"""The OpenTelemetry SDK, set up for a process of ours. Nobody else imports it: a user's own set-up works as well."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from projectionist.core.errors import SettingsError
from projectionist.core.telemetry import instruments
from projectionist.core.telemetry import metrics as meters

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Sampler

    from projectionist.core.settings.settings import Telemetry

Scrape = Callable[[], bytes]
"""The metrics of this process in Prometheus's text format."""

ENDING_S = 3.0
"""How long a process that ends waits for a collector that does not answer."""


@contextmanager
def exporting(settings: Telemetry, service: str) -> Iterator[Scrape | None]:
    """Export what this process tells, as `[telemetry]` says, until the end of the block.

    Yields what `/metrics` answers, where Prometheus asks. The standard variables that docs/telemetry.md names are
    honoured. Raises SettingsError if the extra that is needed is missing.
    """
    collector = _collector(settings)
    if settings.exporter == "none" and collector is None:  # nobody listens
        yield None
        return
    try:
        resource = _resource(service)
        reader, scrape = _reader(settings, collector)
        tracers = _tracers(collector, resource)
        numbers = _numbers(resource, reader)
    except ImportError as error:
        extra = "prometheus" if settings.exporter == "prometheus" else "telemetry"
        raise SettingsError(
            f"[telemetry] asks for {error.name}, which is not installed",
            remedy=f"Install projectionist[{extra}]"
            + (" and projectionist[telemetry]" if collector and extra == "prometheus" else ""),
        ) from None
    try:
        yield scrape
    finally:
        # A thread: a collector that does not answer is tried again for longer than a process may take to end.
        ending = threading.Thread(target=_end, args=(tracers, numbers), daemon=True)
        ending.start()
        ending.join(ENDING_S)
        meters.forget()


def _end(tracers: TracerProvider | None, numbers: MeterProvider | None) -> None:
    for provider in (tracers, numbers):
        if provider is not None:
            provider.shutdown()


def _collector(settings: Telemetry) -> str | None:
    """Return where OTLP goes: the setting, else its default where OTLP is asked for."""
    found = settings.endpoint.reveal() if settings.endpoint else None
    return (found or "http://localhost:4318").rstrip("/") if found or settings.metrics == "otlp" else None


def _resource(service: str) -> Resource:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415  no command waits in vain

    ours = {
        "service.name": service,
        "service.version": version("projectionist"),
        "service.instance.id": str(uuid4()),
    }
    return Resource.create(ours).merge(OTELResourceDetector().detect())  # the environment goes first


def _tracers(collector: str | None, resource: Resource) -> TracerProvider | None:
    if collector is None:
        return None
    from opentelemetry import trace  # noqa: PLC0415  as above
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(sampler=_sampler(), resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{collector}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000))
    trace.set_tracer_provider(provider)
    return provider


def _sampler() -> Sampler:
    """Sample as the parent was sampled; what begins a trace is sampled, since it is begun for something that was."""
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased  # noqa: PLC0415  as above

    return ParentBased(root=ALWAYS_ON)


def _reader(settings: Telemetry, collector: str | None) -> tuple[MetricReader | None, Scrape | None]:
    if settings.exporter == "prometheus":
        from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415  an extra
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        registry = CollectorRegistry()
        return PrometheusMetricReader(registry=registry), lambda: generate_latest(registry)
    if settings.metrics != "otlp":
        return None, None
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    exporter = OTLPMetricExporter(endpoint=f"{collector}/v1/metrics")
    every_ms = settings.metrics_interval_s * 1000
    return PeriodicExportingMetricReader(exporter, export_interval_millis=every_ms), None


def _numbers(resource: Resource, *readers: MetricReader | None) -> MeterProvider | None:
    found: Sequence[MetricReader] = [reader for reader in readers if reader is not None]
    if not found:
        return None
    from opentelemetry import metrics  # noqa: PLC0415  as above
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415

    provider = MeterProvider(found, resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    for metric in instruments.METRICS.values():
        if metric.instrument is instruments.Instrument.GAUGE:
            meters.show(metric, ())
        elif metric.instrument is instruments.Instrument.COUNTER:
            meters.add(metric, 0)  # it is there before anything has happened
    return provider

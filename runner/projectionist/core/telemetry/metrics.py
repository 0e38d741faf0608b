"""Numbers on their way out: what `instruments` lists, made when first used. Free while nobody listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, NoOpMeterProvider, Observation

from projectionist.core.telemetry import instruments, liveness, names
from projectionist.core.telemetry.instruments import Instrument, Metric

Shown = Sequence[tuple[float, Mapping[str, str]]]

_instruments: dict[str, Any] = {}
_shown: dict[str, Callable[[], Shown]] = {}


def on() -> bool:
    """Return whether anybody listens. Asked once per batch: what is not told is not reckoned either."""
    provider = metrics.get_meter_provider()
    return not isinstance(provider, NoOpMeterProvider) and type(provider).__name__ != "_ProxyMeterProvider"


def add(metric: Metric, n: float, attributes: Mapping[str, str] | None = None) -> None:
    """Count."""
    _instrument(metric).add(n, attributes)


def record(metric: Metric, value: float, attributes: Mapping[str, str] | None = None) -> None:
    """Note one value of a distribution."""
    _instrument(metric).record(value, attributes)


def show(metric: Metric, values: Shown) -> None:
    """Set what an observed metric says from now on."""
    ask(metric, lambda: values)


def ask(metric: Metric, answer: Callable[[], Shown]) -> None:
    """Register who is asked what an observed metric says, whenever somebody wants to know."""
    _shown[metric.name] = answer
    _instrument(metric)


def shown(metric: Metric) -> Shown:
    """Return what an observed metric says now."""
    return _shown.get(metric.name, tuple)()


def reachable(**servers: bool) -> Shown:
    """Return what `instruments.REACHABLE` says of servers by their names."""
    return [(float(answers), {names.SERVER: name}) for name, answers in servers.items()]


def thresholds(alerts: Struct, who: Mapping[str, str] = {}) -> Shown:
    """Return what `instruments.POLICY` says of a section of settings, of a consumer or of the process."""
    values = asdict(alerts)
    return [(float(value), {**who, names.THRESHOLD: name}) for name, value in values.items()]


def forget() -> None:
    """Show nothing any more, and make the instruments anew: another provider may be there."""
    _instruments.clear()
    _shown.clear()


def _instrument(metric: Metric) -> Any:
    found = _instruments.get(metric.name)
    if found is None:
        found = _instruments[metric.name] = _made(metric)
    return found


def _made(metric: Metric) -> Any:
    meter = metrics.get_meter(names.SCOPE, schema_url=names.SCHEMA_URL)
    if metric.instrument is Instrument.COUNTER:
        return meter.create_counter(metric.name, metric.unit, metric.text)
    if metric.instrument is Instrument.HISTOGRAM:
        buckets = instruments.SECONDS if metric.unit == "s" else instruments.SIZES
        return meter.create_histogram(
            metric.name, metric.unit, metric.text, explicit_bucket_boundaries_advisory=buckets
        )
    return meter.create_observable_gauge(metric.name, [_asked(metric)], metric.unit, metric.text)


def _asked(metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observations(_: CallbackOptions) -> Iterable[Observation]:
        values = _ages() if metric is instruments.LOOP_AGE else shown(metric)
        return [Observation(value, attributes) for value, attributes in values]

    return observations


def _ages() -> Shown:
    return [(age, {names.LOOP: loop, names.CONSUMER: who}) for (loop, who), age in liveness.ages().items()]

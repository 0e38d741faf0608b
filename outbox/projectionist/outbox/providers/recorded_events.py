"""Recorded events, published by the relay to the stream they were recorded for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from projectionist.core.errors import DefinitionError
from projectionist.outbox.providers.base import ProviderContext, RenderError, Request
from projectionist.outbox.providers.nats import NatsPublish, NatsSettings
from projectionist.outbox.providers.settings import ProviderSettings


class RecordedEventSettings(ProviderSettings, frozen=True, kw_only=True):
    """How fast, and for how long: all else of an event comes from its class and its call."""

    timeout_s: float = 5.0
    concurrency: int = 1024


class RecordedEvents(NatsPublish):
    """Publishes the events recorded for the declared stream whose name it has; each was frozen when it was recorded."""

    Settings = RecordedEventSettings  # type: ignore[assignment] # what it takes from the file is less

    def __init__(self, name: str, settings: RecordedEventSettings, site: ProviderContext) -> None:
        given = {field: getattr(settings, field) for field in settings.__struct_fields__}
        super().__init__(name, NatsSettings(subject="", stream=name, **given), site)

    def render(self, request: Request) -> bytes:
        """Refuse what was not recorded: an intent whose class names the stream as its provider."""
        raise RenderError(
            f"{self.name} is a declared stream, which takes recorded events alone",
            remedy=f"Give {request.intent} a provider of another name",
        )


def with_streams(providers: Mapping[str, Callable[..., Any]], streams: Iterable[str]) -> dict[str, Any]:
    """Add to the providers of an app what publishes the events recorded for its streams."""
    found = dict(providers)
    for name in streams:
        if name in found:
            raise DefinitionError(
                f"{name!r} is a stream of this app and a provider",
                remedy="Give the provider another name: the relay publishes recorded events under that of their stream",
            )
        found[name] = RecordedEvents
    return found

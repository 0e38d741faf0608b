"""Every name that users write with, from one place. It holds no logic, and nothing of ours imports it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projectionist.core.errors import ProjectionistError
    from projectionist.core.settings.settings import settings
    from projectionist.outbox import (
        AGGREGATE,
        Cancel,
        Intent,
        IntentReused,
        Outbox,
        OutboxError,
        Scheduled,
        Slotted,
        intent_key,
    )
    from projectionist.outbox.providers import (
        PROFILES,
        Http,
        NatsPublish,
        Outcome,
        Profile,
        Provider,
        ProviderContext,
        ProviderSettings,
        RenderError,
        Reply,
        Request,
        Secret,
        SecretRef,
        Signal,
        Smtp,
        Webhook,
    )
    from projectionist.outbox.publishing.draft import PublishError
    from projectionist.outbox.publishing.publisher import NotPublished
    from projectionist.outbox.recording.outbox_recorder import BlockingOutboxRecorder, OutboxRecorder
    from projectionist.outbox.recording.recorded import EventReused, Recorded, VersionConflict
    from projectionist.outbox.recording.stream_recorder import StreamRecorder
    from projectionist.projections import (
        BadValue,
        Delete,
        Envelope,
        Erased,
        Event,
        EventError,
        EventIntent,
        Events,
        Index,
        Projection,
        Reactor,
        Refuse,
        Retry,
        SqlProjection,
        Stream,
        Tx,
        ViewSet,
        absent,
        lookup,
        on,
        on_batch,
        reference,
        upcast,
    )
    from projectionist.projections.bounds import Bounds
    from projectionist.projections.event_classes import event
    from projectionist.runner import App
    from projectionist.runner.process.running import Running
    from projectionist.runner.process.supervisor import CannotGoOn
    from projectionist.runner.wait.outcome import WaitResult

__all__ = [
    "AGGREGATE",
    "PROFILES",
    "App",
    "BadValue",
    "BlockingOutboxRecorder",
    "Bounds",
    "Cancel",
    "CannotGoOn",
    "Delete",
    "Envelope",
    "Erased",
    "Event",
    "EventError",
    "EventIntent",
    "EventReused",
    "Events",
    "Http",
    "Index",
    "Intent",
    "IntentReused",
    "NatsPublish",
    "NotPublished",
    "Outbox",
    "OutboxError",
    "OutboxRecorder",
    "Outcome",
    "Profile",
    "Projection",
    "ProjectionistError",
    "Provider",
    "ProviderContext",
    "ProviderSettings",
    "PublishError",
    "Reactor",
    "Recorded",
    "Refuse",
    "RenderError",
    "Reply",
    "Request",
    "Retry",
    "Running",
    "Scheduled",
    "Secret",
    "SecretRef",
    "Signal",
    "Slotted",
    "Smtp",
    "SqlProjection",
    "Stream",
    "StreamRecorder",
    "Tx",
    "VersionConflict",
    "ViewSet",
    "WaitResult",
    "Webhook",
    "absent",
    "event",
    "intent_key",
    "lookup",
    "on",
    "on_batch",
    "reference",
    "settings",
    "upcast",
]

_NAMES = {
    "core.errors": "ProjectionistError",
    "core.settings.settings": "settings",
    "outbox": "AGGREGATE Cancel Intent IntentReused Outbox OutboxError Scheduled Slotted intent_key",
    "outbox.providers": "Http NatsPublish Outcome PROFILES Profile Provider ProviderContext ProviderSettings"
    " RenderError Reply Request Secret SecretRef Signal Smtp Webhook",
    "outbox.publishing.draft": "PublishError",
    "outbox.publishing.publisher": "NotPublished",
    "outbox.recording.outbox_recorder": "BlockingOutboxRecorder OutboxRecorder",
    "outbox.recording.recorded": "EventReused Recorded VersionConflict",
    "outbox.recording.stream_recorder": "StreamRecorder",
    "projections": "BadValue Delete Envelope Erased Event EventError EventIntent Events Index Projection Reactor"
    " Refuse Retry SqlProjection Stream Tx ViewSet absent lookup on on_batch reference upcast",
    "projections.bounds": "Bounds",
    "projections.event_classes": "event",
    "runner": "App",
    "runner.process.running": "Running",
    "runner.process.supervisor": "CannotGoOn",
    "runner.wait.outcome": "WaitResult",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # with a `__getattr__` in sight, type checkers take any name for granted

    def __getattr__(name: str) -> object:
        """Import a name when it is first asked for, so that an event costs no NATS client and no mail library."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"projectionist.{_HOMES[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

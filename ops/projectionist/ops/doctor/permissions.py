"""What a user of NATS needs for each process of an app, made of the subjects that the code asks by. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.nats import api_subjects
from projectionist.core.nats.api_subjects import ANY
from projectionist.outbox.providers.nats import NatsPublish
from projectionist.outbox.providers.recorded_events import RecordedEvents

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App

_BELOW = ">"


class Process(StrEnum):
    """Whoever connects to NATS, with rights of its own."""

    RUN = "run"
    RELAY = "relay"
    REBUILD = "rebuild"
    """And `verify`, `recompute`, `replay`: whatever reads the stream again."""
    OBSERVE = "observe"
    PRODUCER = "producer"
    """A program of yours that records events without a database, or waits for what it has recorded."""
    OPERATOR = "operator"
    """Every other command."""


class Right(msgspec.Struct, frozen=True):
    """One subject, and what it is for."""

    subject: str
    why: str


class Rights(msgspec.Struct, frozen=True):
    """All of one process."""

    publish: tuple[Right, ...]
    subscribe: tuple[Right, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Return them for programs."""
        return {
            "publish": [right.subject for right in self.publish],
            "subscribe": [right.subject for right in self.subscribe],
            "notes": list(self.notes),
        }

    def block(self) -> str:
        """Return them as the permissions of a user in the configuration of nats-server."""
        return (
            f"permissions: {{\n{_allowed('publish', self.publish)}{_allowed('subscribe', self.subscribe)}}}"
        )


def _allowed(word: str, rights: Iterable[Right]) -> str:
    subjects = "".join(f"    {msgspec.json.encode(right.subject).decode()}\n" for right in rights)
    return f"  {word}: {{ allow: [\n{subjects}  ] }}\n"


def rights(process: Process, app: App, settings: Settings, durables: Mapping[str, str]) -> Rights:
    """Return what a process of this app needs. `durables`: the names of those that are registered, by consumer."""
    notes: list[str] = []
    streams = sorted({one.stream for one in app.definitions})
    match process:
        case Process.RUN:
            found = [*_reading(streams), *_serving(app, durables, notes)]
        case Process.RELAY:
            found = [*_publishing(app, settings, notes)]
        case Process.REBUILD:
            found = [*_reading(streams)]
        case Process.OBSERVE:
            found = [*_looking(streams), *_seeing(app, durables, notes)]
        case Process.PRODUCER:
            found = [*_recording(app), *_looking(streams)]
        case Process.OPERATOR:
            found = [*_operating(app, streams, durables, notes)]
    return Rights(
        publish=tuple(_each_once(found)),
        subscribe=(Right(f"{settings.nats.inbox_prefix}.{_BELOW}", "answers"),),
        notes=tuple(notes),
    )


def _each_once(found: Iterable[Right]) -> Iterator[Right]:
    seen: set[str] = set()
    for right in found:
        if right.subject not in seen:
            seen.add(right.subject)
            yield right


def _looking(streams: Iterable[str]) -> Iterator[Right]:
    for stream in streams:
        yield Right(api_subjects.stream_info(stream), "what the stream is and holds")
        yield Right(api_subjects.message_get(stream), "single messages of it")


def _reading(streams: Iterable[str]) -> Iterator[Right]:
    """Return what reading a stream in bulk takes: readers are consumers whose names are drawn."""
    for stream in streams:
        yield from _looking([stream])
        yield Right(api_subjects.consumer_create(stream, _BELOW), "durables, and readers for a part of it")
        yield Right(api_subjects.consumer_info(stream, ANY), "how far they are")
        yield Right(api_subjects.consumer_next(stream, ANY), "their messages")
        yield Right(api_subjects.consumer_delete(stream, ANY), "readers that are done")


def _durables(app: App, durables: Mapping[str, str], notes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the stream and the durable of each consumer."""
    lacking = [one.name for one in app.definitions if one.name not in durables]
    if lacking:
        notes.append(
            f"{', '.join(lacking)}: the database could not be asked for the durable, or has none yet, so every one of "
            "the stream is allowed. After `projectionist migrate` this prints its name"
        )
    for one in app.definitions:
        yield one.stream, durables.get(one.name, ANY)


def _moving(app: App, durables: Mapping[str, str], notes: list[str]) -> Iterator[Right]:
    for stream, durable in _durables(app, durables, notes):
        yield Right(
            api_subjects.consumer_reset(stream, durable), "moving the durable to where it has to go on"
        )


def _serving(app: App, durables: Mapping[str, str], notes: list[str]) -> Iterator[Right]:
    yield from _moving(app, durables, notes)
    for stream, durable in _durables(app, durables, []):
        for subject in api_subjects.acks(stream, durable):
            yield Right(subject, "acks")


def _seeing(app: App, durables: Mapping[str, str], notes: list[str]) -> Iterator[Right]:
    for stream, durable in _durables(app, durables, notes):
        yield Right(api_subjects.consumer_info(stream, durable), "how far the durable is")


def _publishing(app: App, settings: Settings, notes: list[str]) -> Iterator[Right]:
    """Return what the relay needs for providers that publish to streams."""
    declared = {one.name: one for one in app.streams}
    for name, factory in app.providers.items():
        if not isinstance(factory, type):
            notes.append(f"provider {name} is made by a function: what it publishes is not known here")
        elif issubclass(factory, RecordedEvents):
            yield from _looking([name])
            yield from (Right(subject, f"events recorded for {name}") for subject in declared[name].filters)
        elif issubclass(factory, NatsPublish):
            stream, subject = factory.publishes(settings.provider(name, factory.Settings))
            if not stream:
                yield Right(api_subjects.stream_names(), f"which stream takes what {name} publishes")
                notes.append(
                    f"[providers.{name}] names no stream: with `stream` it needs to ask that one alone"
                )
            yield from _looking([stream or ANY])
            yield Right(subject, f"intents of {name}")


def _recording(app: App) -> Iterator[Right]:
    for one in app.streams:
        if one.events:
            yield from (Right(subject, f"events of {one.name}") for subject in one.filters)
            yield from _looking([one.name])
            yield Right(api_subjects.stream_names(), "which stream took an event whose answer was lost")


def _operating(
    app: App, streams: Iterable[str], durables: Mapping[str, str], notes: list[str]
) -> Iterator[Right]:
    yield Right(api_subjects.account(), "limits of the account, for the doctor")
    yield Right(api_subjects.user_info(), "what this user may do, for the doctor")
    yield Right(api_subjects.stream_names(), "which streams take a declared subject")
    yield from _reading(sorted({*streams, *(one.name for one in app.streams)}))
    for one in app.streams:
        yield Right(api_subjects.stream_create(one.name), "`migrate --streams`")
        yield Right(api_subjects.stream_update(one.name), "`migrate --streams`")
    yield from _moving(app, durables, notes)

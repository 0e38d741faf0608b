"""Describes an app as an AsyncAPI 3.0 document: its channels, who sends and receives what there, and what it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.pydantic_models import is_model
from projectionist.outbox.intents.intent import options_of
from projectionist.projections.compiled.subject_pattern import SubjectPattern
from projectionist.projections.event import schema_of, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from projectionist.outbox.intents.intent import Intent
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.stream import Stream

VERSION = "3.0.0"
_SCHEMAS = "#/components/schemas/{name}"

Document = dict[str, Any]


def async_api(title: str, definitions: Sequence[ConsumerDefinition], streams: Sequence[Stream]) -> Document:
    """Return the document. Its version is a digest of all else, so that a changed contract has another one.

    A channel is a subject of a stream, as the stream declares it, else as consumers name it; and a provider, whose
    address is its own affair. An operation is what a stream is sent, a consumer reads, or asks a provider for.
    """
    contract = _Contract()
    for stream in streams:
        contract.publish(stream)
    for definition in definitions:
        contract.consume(definition)
    return contract.document(title)


class _Contract:
    """The parts of the document, as they are met."""

    def __init__(self) -> None:
        self._channels: Document = {}
        self._operations: Document = {}
        self._messages: Document = {}
        self._keys: dict[tuple[str, type], str] = {}
        self._classes: dict[str, type] = {}
        self._places: dict[tuple[str, str], str] = {}
        """The channel of each subject, as NATS writes it, of a stream."""

    def publish(self, stream: Stream) -> None:
        """Enter what a declared stream is sent."""
        channel = self._channel(stream.name, SubjectPattern(stream.subject), stream.subject)
        sent = [self._event(channel, str(type_of(event)), event) for event in stream.events]
        if sent:
            summary = f"{stream.source} publishes to {stream.name}"
            self._operate(f"{stream.name}.publish", "send", channel, sent, summary=summary)

    def consume(self, d: ConsumerDefinition) -> None:
        """Enter what a consumer reads, and what it asks for."""
        about: Document = {"x-kind": str(d.kind)}
        if tables := [table.public for view in d.views for table in view.owned]:
            about["x-tables"] = tables
        for at, pattern in enumerate(d.subjects.patterns, 1):
            channel = self._channel(d.stream, pattern, pattern.text)
            read = [self._event(channel, kind, event) for kind, event in sorted(d.events.items())]
            name = d.name if len(d.subjects.patterns) == 1 else f"{d.name}.{at}"
            self._operate(name, "receive", channel, read, **_told(d.cls), **about)
        for intent in d.intents:
            self._intend(d, intent)

    def document(self, title: str) -> Document:
        """Return the whole, with the schemas of all classes it names."""
        nested: Document = {}
        refs, schemas = msgspec.json.schema_components(
            self._classes.values(), schema_hook=partial(_foreign, nested), ref_template=_SCHEMAS
        )
        schemas = {**nested, **schemas}
        for name, ref in zip(self._classes, refs, strict=True):
            self._messages[name]["payload"] = ref
        parts = {
            "defaultContentType": "application/json",
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": schemas},
        }
        digest = blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=6).hexdigest()
        return {"asyncapi": VERSION, "info": {"title": title, "version": digest}, **parts}

    def _channel(self, stream: str, pattern: SubjectPattern, text: str) -> str:
        name = self._places.get((stream, pattern.filter))
        if name is None:
            plain = [token for token in re.split(r"[.*>]|\{\w+\}", text) if token]
            name = _free(_key(".".join([stream, *plain])), self._channels)
            self._places[stream, pattern.filter] = name
            channel: Document = {"address": text, "messages": {}, "x-jetstream-stream": stream}
            if tokens := re.findall(r"\{(\w+)\}", text):
                channel["parameters"] = {token: {"description": _TOKENS[token]} for token in tokens}
            self._channels[name] = channel
        return name

    def _event(self, channel: str, kind: str, event: type[AnyEvent]) -> Document:
        message = {
            "name": kind,
            "contentType": "application/json",
            "x-schema": schema_of(event),
            **_told(event),
        }
        return self._enter(channel, _key(kind), event, message)

    def _intend(self, d: ConsumerDefinition, intent: type[Intent]) -> None:
        options = options_of(intent)
        channel = _key(f"provider.{options.provider}")
        self._channels.setdefault(
            channel, {"address": None, "title": f"the provider {options.provider!r}", "messages": {}}
        )
        message = {"name": options.name, "contentType": "application/json", **_told(intent)}
        asked = self._enter(channel, _key(options.name), intent, message)
        summary = f"{d.name} asks for it; a relay sends it once"
        self._operate(
            f"{d.name}.{options.name}", "send", channel, [asked], summary=summary, **{"x-slot": options.slot}
        )

    def _enter(self, channel: str, name: str, cls: type, message: Document) -> Document:
        """Enter a message under its name, or beside another class's of the same; return where the channel has it."""
        key = self._keys.setdefault((name, cls), _free(name, self._classes))
        self._classes[key] = cls
        self._messages[key] = message
        self._channels[channel]["messages"][key] = {"$ref": f"#/components/messages/{key}"}
        return {"$ref": f"#/channels/{channel}/messages/{key}"}

    def _operate(
        self, name: str, action: str, channel: str, messages: Iterable[Document], **about: Any
    ) -> None:
        key = _free(_key(name), self._operations)
        where = {"$ref": f"#/channels/{channel}"}
        self._operations[key] = {"action": action, "channel": where, "messages": list(messages), **about}


_TOKENS = {
    "id": "the id of the aggregate",
    "aggregate": "the id of the aggregate",
    "type": "the type of the aggregate",
}


def _told(cls: type) -> Document:
    """Return what the author says of a class; not what a base class says of itself."""
    said = cls.__dict__.get("__doc__")
    return {"title": cls.__name__, **({"description": cleandoc(said)} if said else {})}


def _foreign(nested: Document, kind: Any) -> Document:
    """Describe a type that msgspec has no schema of: a Pydantic model by its own, else any value."""
    if not is_model(kind):
        return {"title": kind.__name__}
    schema: Document = kind.model_json_schema(ref_template=_SCHEMAS.replace("{name}", "{model}"))
    nested.update(schema.pop("$defs", {}))
    if "$ref" in schema:  # a model that holds itself
        return {"allOf": [{"$ref": schema["$ref"]}]}
    return schema


def _key(text: str) -> str:
    """Return `text` as the document may have it for a key."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Return `name`, or the first numbered one that is not taken."""
    at = 1
    free = name
    while free in taken:
        at += 1
        free = f"{name}-{at}"
    return free

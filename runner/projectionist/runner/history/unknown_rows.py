"""Finds the rows that cannot be told, because events that live has applied to them are no longer to be had. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.projections.errors import BadValue
from projectionist.runner.batch.version_ranges import VersionRanges

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.batch.decisions import Decisions
    from projectionist.runner.history.applied_filter import AggregateProgress


class Lost(msgspec.Struct, frozen=True):
    """An event that live has applied and that the stream no longer holds, as far as it is known."""

    aggregate: str | None = None
    version: int | None = None
    seq: int | None = None
    type: str | None = None
    """None where nothing is left that says it."""

    def __str__(self) -> str:
        if self.aggregate is None:
            return f"sequence {self.seq}" if self.seq else "events that retention has removed from the inbox"
        return self.aggregate if self.version is None else f"{self.aggregate} v{self.version}"


class UnknownRows:
    """Filled with what is lost, then asked row by row. Remembers the lowest version a row, or one event for all of
    them."""

    def __init__(self, definition: Definition) -> None:
        self._handlers = definition.handlers
        self._definition = definition
        assert definition.table is not None, "only a Projection has rows that are told one by one"
        assert definition.table.key is not None, "and they have a key"
        self._group = definition.table.key.group
        self._own = all(handler.own for handler in self._handlers.values())
        self._rows: dict[Any, Lost] = {}
        """By the aggregate's id, as the first column of keys has it."""
        self.everywhere: Lost | None = None
        """An event that may have touched any row."""

    def add(self, lost: Lost) -> None:
        """Take one more into account. An event of a type without a handler has touched nothing."""
        if lost.type is not None and lost.type not in self._handlers:
            return
        own = self._own if lost.type is None else self._handlers[lost.type].own
        if (
            own
            and lost.aggregate is not None
            and (group := own_group(self._definition, lost.aggregate)) is not None
        ):
            known = self._rows.get(group)
            if known is None or (lost.version or 0) < (known.version or 0):
                self._rows[group] = lost
            return
        # Where no row has such a key now, under older code one may have had.
        self.everywhere = self.everywhere or lost

    def at(self, key: Any) -> Lost | None:
        """Return what is lost of the events that may have touched this row; None if nothing is."""
        return self.everywhere or self._rows.get(self._group(key))


def own_group(definition: Definition, aggregate: str) -> Any:
    """Return what the rows of the aggregate's own have as the first column of their keys; None where its id is none."""
    assert definition.table is not None, "only a Projection has rows that are told one by one"
    assert definition.table.key is not None, "and they have a key"
    column = definition.table.key.first
    try:
        return column.canonical(msgspec.convert(aggregate.partition("/")[2], column.kind, strict=False))
    except (BadValue, msgspec.ValidationError, ValueError):
        return None


class MetVersions:
    """Versions that were met of each aggregate, to see whether they lead without a hole to where live stands."""

    def __init__(self, tracks: Mapping[str, AggregateProgress], decisions: Decisions) -> None:
        self._tracks = tracks
        self._decisions = decisions
        self._beyond: dict[str, list[list[int]]] = {}
        """First and last of those met too early, in the order in which they came."""

    def meet(self, aggregate: str, version: int) -> None:
        """Note an event that can be had."""
        track = self._tracks.get(aggregate)
        if track is None or not track.at < version <= track.cap:
            return
        if version == track.at + 1:
            track.at = version
            return
        ranges = self._beyond.setdefault(aggregate, [])
        if ranges and version == ranges[-1][1] + 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])

    def missing(self) -> list[Lost]:
        """Return the first version of each aggregate that was neither met nor stepped over."""
        found = []
        for aggregate, track in self._tracks.items():
            at = self._end(aggregate, track)
            if at < track.cap:
                found.append(Lost(aggregate, at + 1))
        return found

    def _end(self, aggregate: str, track: AggregateProgress) -> int:
        met = VersionRanges()
        for first, last in self._beyond.get(aggregate, ()):
            met.add(first, last)
        at, before = track.at, -1
        while at != before and at < track.cap:
            before, at = at, met.after(self._decisions.after(aggregate, at))
        return at

"""What handlers have looked up: rows that were read by key, and the mapping that shows an event its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from projectionist.projections.errors import BadValue

if TYPE_CHECKING:
    from projectionist.projections.envelope import Envelope
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.folding.rows import Rows
    from projectionist.projections.handlers import Handler
    from projectionist.projections.lookups import LookupSource

Row = tuple[Any, ...]
Found = Row | BadValue | None
"""A row in database form, none, or why it cannot be had."""


class RowKind(Protocol):
    """Knows the type of the aggregates whose ids are keys of a view's rows, as far as an event has decided it."""

    @property
    def known(self) -> str | None:
        """Return the type."""


class UndeclaredKey(Exception):
    """A handler has looked up another key than its event names: no batch would have read it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} holds the keys that by= gives for this event, and no others")


class LookedUp(Mapping[Any, Any]):
    """The rows of one lookup for one event, by key; a key that has no row is not in it."""

    __slots__ = ("_found", "_name", "_source")

    def __init__(self, name: str, source: LookupSource[Any], found: dict[Any, Found]) -> None:
        """Take what was found of each key that the event looks up."""
        self._name, self._source, self._found = name, source, found

    def __getitem__(self, key: object) -> Any:
        found = self._found[self._stored(key)]
        if found is None:
            raise KeyError(key)
        if isinstance(found, BadValue):
            raise found
        return self._source.thawed(found)

    def __contains__(self, key: object) -> bool:
        return self._found[self._stored(key)] is not None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, found in self._found.items() if found is not None)

    def __len__(self) -> int:
        return sum(found is not None for found in self._found.values())

    def __repr__(self) -> str:
        return f"{self._name} of {len(self)} keys"

    def _stored(self, key: object) -> Any:
        if key in self._found:
            return key
        of = self._source.table.key
        assert of is not None, "it has columns"
        try:
            stored = of.stored(key)
        except BadValue as bad:
            raise UndeclaredKey(self._name) from bad
        if stored not in self._found:
            raise UndeclaredKey(self._name)
        return stored


class LookedUpRows:
    """Rows that were read for lookups, by source and key; those of other views that are folded beside, as they are now.

    What is folded comes before what was read: at each event, rows of other views are what the events before it have
    made of them.
    """

    def __init__(self) -> None:
        self._found: dict[LookupSource[Any], dict[Any, Found]] = {}
        self._folded: Mapping[LookupSource[Any], Rows] = {}
        self._kinds: Mapping[LookupSource[Any], RowKind] = {}
        self._is_all = False

    def forget(self, source: LookupSource[Any] | None = None) -> None:
        """Forget what was read; of one source, or of all."""
        if source is None:
            self._found.clear()
        else:
            self._found.pop(source, None)

    def follow(
        self,
        folded: Mapping[LookupSource[Any], Rows],
        kinds: Mapping[LookupSource[Any], RowKind] = MappingProxyType({}),
        *,
        is_all: bool,
    ) -> None:
        """Look into these rows first; `is_all`: and nowhere else, since there are no others.

        `kinds`: whose ids their keys are.
        """
        self._folded, self._kinds, self._is_all = folded, kinds, is_all

    def lacking(
        self, events: Iterable[tuple[Handler, AnyEvent, Callable[[], Envelope]]]
    ) -> dict[LookupSource[Any], set[Any]]:
        """Return the keys that these events look up and that were not read; one that cannot tell fails in its turn."""
        lacking: dict[LookupSource[Any], set[Any]] = {}
        for handler, event, envelope in events:
            for ask in handler.asks:
                try:
                    keys = ask.keys(event, envelope)
                except BadValue:
                    continue
                lacking.setdefault(ask.source, set()).update(keys)
        without = ((source, keys.difference(self._found.get(source, ()))) for source, keys in lacking.items())
        return {source: keys for source, keys in without if keys}

    def put(self, source: LookupSource[Any], keys: Iterable[Any], rows: Sequence[Row]) -> None:
        """Keep what a look at these keys has found."""
        held = self._found.setdefault(source, {})
        held.update(dict.fromkeys(keys))
        of = source.table.key
        assert of is not None, "it has columns"
        found = {of.of(row): row for row in rows}
        held.update(found)
        if len(found) < len(rows):
            twice = BadValue(f"{source.table.public} has several rows of one key")
            held.update((key, twice) for key, many in Counter(map(of.of, rows)).items() if many > 1)

    def given(
        self, handler: Handler, event: AnyEvent, envelope: Callable[[], Envelope]
    ) -> dict[str, LookedUp]:
        """Return what a handler gets of its lookups for an event. Raises BadValue."""
        given = {}
        found: dict[Any, Found]
        for ask in handler.asks:
            keys = ask.keys(event, envelope)
            try:
                is_others = ask.is_own and self._is_others(ask.source, envelope)
                found = dict.fromkeys(keys) if is_others else self._at_hand(ask.source, keys)
            except KeyError as error:
                raise BadValue(
                    f"{ask.name}: by= gives other keys each time, and may know the event alone"
                ) from error
            given[ask.name] = LookedUp(ask.name, ask.source, found)
        return given

    def _is_others(self, source: LookupSource[Any], envelope: Callable[[], Envelope]) -> bool:
        """Return whether rows of this view are of aggregates of another type than the event's, whose ids may be
        alike."""
        kind = None if (one := self._kinds.get(source)) is None else one.known
        return kind is not None and kind != envelope().aggregate_type

    def _at_hand(self, source: LookupSource[Any], keys: Iterable[Any]) -> dict[Any, Found]:
        held, folded = self._found.get(source, {}), self._folded.get(source)
        if folded is None:
            return {key: held[key] for key in keys}
        if self._is_all:
            return {key: folded.current(key) for key in keys}
        return {key: folded.current(key) if folded.has(key) else held[key] for key in keys}

    @property
    def count(self) -> int:
        """Return how many keys were read."""
        return sum(map(len, self._found.values()))


NOTHING: dict[str, LookedUp] = {}
"""What handlers without lookups are given."""

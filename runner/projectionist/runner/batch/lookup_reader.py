"""Reads what the handlers of a batch look up: one statement for each source, whatever the number of events.

Rows of another view of the set are read as the batch's own are, of the generation that is live; but for those that the
batch holds anyway, which its fold knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.projections.folding.looked_up import LookedUpRows
from projectionist.projections.tables.row_statements import read_by_keys
from projectionist.projections.tables.table_key import MOST_AT_ONCE
from projectionist.runner.batch.wanted_rows import TooManyRows

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.envelope import Envelope
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.folding.step import Step
    from projectionist.projections.handlers import Handler
    from projectionist.projections.lookups import LookupSource
    from projectionist.runner.batch.row_table import RowTable
    from projectionist.runner.decoding.delivery import Delivery

_REFUSED = (asyncpg.SyntaxOrAccessError, asyncpg.InvalidSchemaNameError)
"""A table or column that is not there, has another type, or may not be read."""
MOST_KEPT = 100_000
"""So many keys are remembered where each is read once; then all are forgotten."""


class LookupUnavailable(ProjectionistError):
    """A table that handlers look up is missing, or not as it is declared: nothing is applied until it is."""


def not_live(view: Definition, needed: Definition) -> LookupUnavailable:
    """Say that a view cannot look up another one whose rows no batch writes."""
    return LookupUnavailable(
        f"{view.full_name} looks up {needed.name}, which is no live view of {view.consumer}",
        remedy=f"Build it: `projectionist rebuild APP {needed.full_name}`; or have the others go on without both: "
        f"`projectionist views detach {view.full_name} --reason …`; or deploy code that looks nothing up there",
    )


async def unavailable(connection: Connection, definition: Definition) -> LookupUnavailable | None:
    """Return why handlers cannot look up a table; None where they can."""
    try:
        await LookupReader(connection, definition).check()
    except LookupUnavailable as error:
        return error
    return None


class LookupReader:
    """Looks up on one connection; no lock is taken, since nothing is written by what was read.

    A batch begins anew. A build reads a key once, so that its rows agree. Views of whose tables it is told nothing are
    left to the fold.
    """

    def __init__(
        self,
        connection: Connection,
        definition: Definition,
        *,
        keeps: bool = False,
    ) -> None:
        self._connection = connection
        self._keeps = keeps
        self.views: Mapping[LookupSource[Any], RowTable] = {}
        """The tables of other views that are read, where they are not folded whole."""
        self._statements: dict[LookupSource[Any], str] = {
            source: read_by_keys(source.table) for source in definition.references
        }
        self._name, self._handlers = definition.name, definition.handlers
        self.rows = LookedUpRows()

    async def check(self) -> None:
        """Raise LookupUnavailable where a table of others is not as its class declares it: each is read, by no key."""
        for source in self._statements:
            await self._fetch(source, [])

    @property
    def needed(self) -> bool:
        """Return whether handlers look anything up."""
        return bool(self._statements)

    async def read_steps(
        self,
        steps: Iterable[Step],
        known: Mapping[LookupSource[Any], AbstractSet[Any]] = MappingProxyType({}),
    ) -> LookedUpRows:
        """Return rows that hold what these steps look up; `known`: keys of views of whose rows the batch knows."""
        asking = [(one.handler, one.event, one.envelope) for one in steps if one.handler.asks]
        return await self.read(asking, known)

    async def read_deliveries(self, deliveries: Iterable[Delivery]) -> LookedUpRows:
        """Return rows that hold what these deliveries look up."""
        asking = {kind: handler for kind, handler in self._handlers.items() if handler.asks}
        return await self.read(
            [
                (asking[one.type], one.event, one.envelope)
                for one in deliveries
                if one.type in asking and one.event is not None
            ]
        )

    async def read(
        self,
        events: Sequence[tuple[Handler, AnyEvent, Callable[[], Envelope]]],
        known: Mapping[LookupSource[Any], AbstractSet[Any]] = MappingProxyType({}),
    ) -> LookedUpRows:
        """Return rows that hold what these events look up. Raises TooManyRows where that is too much for one look."""
        if not self._keeps or self.rows.count > MOST_KEPT:
            self.rows.forget()
        for view in self.views:  # whose rows are others by now
            self.rows.forget(view)
        for source, keys in self.rows.lacking(events).items():
            if source not in self._statements and source not in self.views:
                continue
            if at_hand := keys.intersection(known.get(source, ())):
                self.rows.put(source, at_hand, ())
            lacking = keys - at_hand
            if len(lacking) > MOST_AT_ONCE and len(events) > 1 and not self._keeps:
                raise TooManyRows
            ordered = sorted(lacking)
            for start in range(0, len(ordered), MOST_AT_ONCE):
                some = ordered[start : start + MOST_AT_ONCE]
                self.rows.put(source, some, await self._fetch(source, some))
        return self.rows

    async def _fetch(self, source: LookupSource[Any], keys: Sequence[Any]) -> list[tuple[Any, ...]]:
        if (view := self.views.get(source)) is not None:
            return await view.look_up(keys)
        of = source.table.key
        assert of is not None, "it has columns"
        try:
            found = await self._connection.fetch(self._statements[source], *of.arrays(keys))
        except _REFUSED as error:
            raise LookupUnavailable(
                f"{self._name} cannot look up {source.table.public}: {error}",
                remedy=f"Make it as {source.row.__name__} declares it, and `grant select` to who runs this",
            ) from error
        return [tuple(record) for record in found]

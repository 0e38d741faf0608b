"""Rows that handlers look up, of tables of others and of views, as a test gives them, in place of a database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from projectionist.core.errors import DefinitionError
from projectionist.projections.folding.looked_up import LookedUpRows

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.folding.rows import Row
    from projectionist.projections.folding.step import Step
    from projectionist.projections.lookups import LookupSource


class LookupRows:
    """The tables of one consumer's lookups."""

    def __init__(self, definition: Definition, rows: Iterable[object] = ()) -> None:
        self._definition = definition
        views = (one.source for one in definition.looks_up)
        self._tables: dict[LookupSource[Any], dict[Any, Row]] = {
            one: {} for one in (*definition.references, *views)
        }
        self.put(rows)

    def put(self, rows: Iterable[object]) -> None:
        """Write rows, in place of those that have their keys; each is an instance of its table's class."""
        for row in rows:
            sources = [one for one in self._tables if one.row is type(row)]
            if not sources:
                known = ", ".join(one.row.__name__ for one in self._tables) or "nothing"
                raise DefinitionError(
                    f"{self._definition.name} looks up no {type(row).__name__}",
                    remedy=f"It looks up: {known}",
                )
            for source in sources:
                stored = source.stored(row)
                assert source.table.key is not None, "it has columns"
                self._tables[source][source.table.key.of(stored)] = stored

    def of(self, steps: Iterable[Step]) -> LookedUpRows:
        """Return what a batch of these steps would have read."""
        found = LookedUpRows()
        asking = [(one.handler, one.event, one.envelope) for one in steps if one.handler.asks]
        for source, keys in found.lacking(asking).items():
            held = self._tables[source]
            found.put(source, keys, [held[key] for key in keys if key in held])
        return found

"""The rows of one batch: tuples in database form, and the instances that handlers see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any

from msgspec.structs import astuple, replace

from projectionist.outbox.intents.schedule import Emitted
from projectionist.projections.copying import copied
from projectionist.projections.envelope import Envelope
from projectionist.projections.errors import BadValue
from projectionist.projections.event import AnyEvent
from projectionist.projections.folding.looked_up import NOTHING, LookedUp, LookedUpRows
from projectionist.projections.folding.step import Step
from projectionist.projections.handlers import Handler
from projectionist.projections.reactor_answers import IDLE, HandlerResult, answer_of
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import MOST_ROWS, Keys, Prefix

Row = tuple[Any, ...]


class Cell:
    """`stored` is the row's tuple (None: absent), `row` an instance made of `base`, `live` its attributes."""

    __slots__ = ("base", "key", "live", "row", "stored")

    def __init__(self, key: Any, stored: Row | None) -> None:
        self.key = key
        self.stored = stored
        self.base: Row = ()
        self.live: Row = ()
        self.row: Any = None


def thawed(cls: type, table: Table, stored: Row) -> Any:
    """Return the instance that a handler would see of a row in database form. Raises BadValue."""
    pairs = zip(table.columns, stored, strict=True)
    return cls(*(value if column.thaw is None else column.thaw(value) for column, value in pairs))


Undo = tuple[Cell, Row | None]
"""A cell, and what stood in it."""


class Rows:
    """Applies steps to rows. A step that raises leaves no trace: its instance is dropped."""

    __slots__ = (
        *(
            "_below",
            "_canonical",
            "_cells",
            "_class",
            "_columns",
            "_defaults",
            "_documents",
            "_key",
            "_loaded",
        ),
        *("_is_as_made", "_looked_up", "_places", "_plain", "_thaws", "failing"),
    )

    def __init__(
        self, cls: type, table: Table, loaded: Mapping[Any, Row], looked_up: LookedUpRows | None = None
    ) -> None:
        self._cells: dict[Any, Cell] = {}
        self._below: dict[int, dict[Row, set[Any]]] = {}
        """Keys by so many of their first columns, of all rows that were met: made when they are asked for."""
        self._class = cls
        self._columns = table.columns
        assert table.key is not None, "it has columns"
        self._key = table.key
        self._loaded = loaded
        self._looked_up = LookedUpRows() if looked_up is None else looked_up
        self._defaults = [column.default for column in table.columns]
        self._places = range(len(table.columns))
        self._canonical = [_refused if column.is_key else column.canonical for column in table.columns]
        self._documents = {at for at, column in enumerate(table.columns) if column.is_json}
        self._thaws = [(at, column.thaw) for at, column in enumerate(table.columns) if column.thaw]
        self._plain = not self._thaws and not self._documents
        self._is_as_made = not (self._thaws or hasattr(cls, "__post_init__"))
        """An instance holds the very values it is made of."""
        self.failing: Any = None
        """The key of the row with which a handler of several ran last: that on which it fails."""

    def apply(self, step: Step) -> HandlerResult | None:
        """Run one step; None where the handler answered nothing. Raises what it raises, and BadValue."""
        if step.handler.several:
            return self.put_all(step.handler, self.cells(step.key), step.event, step.envelope)
        return self.put(step.handler, self.cell(step.key), step.event, step.envelope)

    def apply_noting(self, step: Step, undo: list[Undo]) -> HandlerResult | None:
        """Run one step as `apply` does, and note the rows it meets as they were before, for whoever takes it back."""
        if step.handler.several:
            cells = self.cells(step.key)
            undo += [(cell, cell.stored) for cell in cells]
            return self.put_all(step.handler, cells, step.event, step.envelope)
        cell = self.cell(step.key)
        undo.append((cell, cell.stored))
        return self.put(step.handler, cell, step.event, step.envelope)

    def cell(self, key: Any) -> Cell:
        """Return the cell of this key; raises the BadValue that stands in place of one."""
        cell = self._cells.get(key)
        if cell is None:
            if isinstance(key, BadValue):
                raise key
            cell = self._cells[key] = Cell(key, self._loaded.get(key))
            for many, found in self._below.items():
                found.setdefault(key[:many], set()).add(key)
        return cell

    def has(self, key: Any) -> bool:
        """Return whether the row of this key was read or met."""
        return key in self._cells or key in self._loaded

    def current(self, key: Any) -> Row | None:
        """Return the row of this key as it is now, in database form; None where there is none."""
        cell = self._cells.get(key)
        return self._loaded.get(key) if cell is None else cell.stored

    def cells(self, key: Keys | Prefix | BadValue) -> list[Cell]:
        """Return the cells of these keys in their order, or of the rows that are there below a prefix, ascending.

        Raises the BadValue that stands in place of them, and one for too many rows.
        """
        self.failing = None
        if isinstance(key, Keys):
            return [self.cell(one) for one in key.listed]
        if isinstance(key, BadValue):
            raise key
        met = self._met(len(key.values)).get(key.values, ())
        found = [cell for one in sorted(met) if (cell := self.cell(one)).stored is not None]
        if len(found) > MOST_ROWS:
            raise BadValue(f"rows= finds more than {MOST_ROWS:,} rows, the most of one event")
        return found

    def _met(self, many: int) -> dict[Row, set[Any]]:
        found = self._below.get(many)
        if found is None:
            found = self._below[many] = {}
            for key in (*self._loaded, *self._cells):
                found.setdefault(key[:many], set()).add(key)
        return found

    def put_all(
        self, handler: Handler, cells: Sequence[Cell], event: AnyEvent, envelope: Callable[[], Envelope]
    ) -> HandlerResult:
        """Run a handler on each of these rows; where one fails all are as before, and `failing` tells which it is."""
        before = [cell.stored for cell in cells]
        intents: list[Emitted] = []
        idle = True
        given = self._looked_up.given(handler, event, envelope) if handler.asks and cells else NOTHING
        try:
            for cell in cells:
                self.failing = cell.key
                answer = self.put(handler, cell, event, envelope, given)
                idle = idle and answer is IDLE
                if answer is not None and answer.intents:
                    scope = self._key.shown(cell.key)
                    intents += [replace(one, scope=scope) for one in answer.intents]
        except BaseException:
            for cell, stored in zip(cells, before, strict=True):
                cell.stored, cell.row = stored, None
            raise
        return IDLE if idle else HandlerResult(intents)

    def where(self, handler: Handler) -> str:
        """Return the row on which this handler of several has just failed, as errors name it; empty for another."""
        return f"row {self._key.shown(self.failing)}" if handler.several and self.failing is not None else ""

    def put(
        self,
        handler: Handler,
        cell: Cell,
        event: AnyEvent,
        envelope: Callable[[], Envelope],
        given: Mapping[str, LookedUp] | None = None,
    ) -> HandlerResult | None:
        """Run a handler on a row at hand: `apply` without a Step. `given`: what it looks up, where that is at hand."""
        if handler.absent and cell.stored is not None:
            return IDLE
        row = cell.row
        if row is None:
            row = self._thawed(cell)
        cell.row = None  # and so it stays if the handler raises
        if handler.bare:
            result = handler.call(row, event)
        else:
            if given is None:
                given = self._looked_up.given(handler, event, envelope) if handler.asks else NOTHING
            if handler.copies:
                event = copied(event)
            if handler.when is not None and not handler.holds(row, event, envelope):
                return IDLE
            result = handler.run(row, event, envelope, given)
        answer = None if result is None else answer_of(result, envelope, ordered=handler.ordered)
        if answer is not None and answer.delete:
            cell.stored = None
        else:
            after = astuple(row)
            if not (self._plain and self._is_stored(cell, after)):
                self._settle(cell, row, after)
            cell.row = row
        return answer

    def changed(self) -> dict[Any, Row | None]:
        """Return the rows to write, by key: a tuple, or None for one to delete."""
        loaded = self._loaded.get
        return {key: cell.stored for key, cell in self._cells.items() if cell.stored is not loaded(key)}

    def _thawed(self, cell: Cell) -> Any:
        base = cell.stored
        if base is None:
            for at, value in zip(self._key.places, self._key.parts(cell.key), strict=True):
                self._defaults[at] = value
            base = tuple(self._defaults)
        cell.base = base
        values: Iterable[Any] = base
        if self._thaws:
            values = changed = list(base)
            for at, thaw in self._thaws:
                changed[at] = thaw(changed[at])
        row = self._class(*values)
        cell.live = base if self._is_as_made else astuple(row)
        return row

    def _settle(self, cell: Cell, row: Any, after: Row) -> None:
        """Bring assigned values, which stand in the instance by now, into database form: in the tuple, and there."""
        values: list[Any] | None = None
        written = False
        for at in self._changed(cell.live, after):
            column, new = self._columns[at], after[at]
            value = column.stored(new)
            if column.is_key and value != cell.base[at]:
                raise BadValue("is the row's key, and a handler changed it", column.name)
            if values is None:
                values = list(cell.base)
            if value != values[at] or not column.is_json:
                values[at] = value
                written = True
            seen = value if column.thaw is None else column.thaw(value)
            if seen is not new:
                setattr(row, column.name, seen)
        if values is not None:
            cell.live = astuple(row)
            if written:
                cell.base = tuple(values)
        cell.stored = cell.base

    def _is_stored(self, cell: Cell, after: Row) -> bool:
        """Settle values assigned in database form, as they nearly always are; False if any is not."""
        written, canonical = False, self._canonical
        try:
            for at in compress(self._places, map(is_not, cell.live, after)):
                if canonical[at](after[at]) is not after[at]:
                    return False
                written = True
        except BadValue:  # `_settle` raises it with the column's name
            return False
        if written:
            cell.base = cell.live = after
        cell.stored = cell.base
        return True

    def _changed(self, live: Row, after: Row) -> Iterable[int]:
        """Return the columns whose value is another object now, and all documents, which may have changed inside."""
        if self._documents:
            return [
                at
                for at, (old, new) in enumerate(zip(live, after, strict=True))
                if old is not new or at in self._documents
            ]
        return compress(self._places, map(is_not, live, after))


def _refused(value: object) -> object:
    """Answer for the column of a key, which no handler may assign: with another object than was given."""
    return _OTHER


_OTHER = object()

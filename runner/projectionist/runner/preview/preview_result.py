"""What a preview has found: rows that would be others, events that would fail, heads that would go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.runner.history.handler_failures import HandlerFailure
from projectionist.runner.preview.check_result import StreamCheck
from projectionist.runner.preview.live_rows import ColumnChanges
from projectionist.runner.verify.row_difference import UNTOLD, Row, differing
from projectionist.runner.verify.verify import UndecidableRow

if TYPE_CHECKING:
    from projectionist.projections.tables.table import Table
    from projectionist.runner.verify.refold_rows import Refolded

LISTED = 20


class RowChange(msgspec.Struct, frozen=True):
    """A row that would be another one; the values are there for those alone who have them revealed."""

    key: str
    side: str
    """`both`, or the one that has such a row: `live`, `new`."""
    columns: list[str]
    """Those that differ, where both have the row."""
    live: dict[str, Any] | None = None
    new: dict[str, Any] | None = None


class HeadPreview(msgspec.Struct, frozen=True):
    """An event that failed live, and what this code makes of it."""

    aggregate: str | None
    version: int | None
    seq: int
    type: str
    error: str
    """Why it failed live."""
    mended: bool | None
    """Whether this code takes it; None where that cannot be told."""
    now: str | None = None
    """Why not."""


class PreviewResult(msgspec.Struct):
    """What a class would make of the rows of its consumer."""

    consumer: str
    generation: int = 0
    """The live one; 0 for a consumer that is not there yet."""
    runs: bool = False
    """Whether this is the code that runs."""
    older_rows: bool = False
    """Whether live rows may be by older code than what runs: what differs is not this change's alone then."""
    columns: ColumnChanges | None = None
    events: int = 0
    """Events that were folded."""
    rows: int = 0
    """Rows that were compared."""
    differ: int = 0
    looked_up: int = 0
    """How many of these hold what a handler has looked up, in tables as they are now: that alone may make the
    difference."""
    by_column: dict[str, int] = {}
    """In how many rows each column differs."""
    only_live: int = 0
    only_new: int = 0
    changes: list[RowChange] = []
    """The first rows that differ."""
    unfinished: int = 0
    """Rows that were not compared, since this code fails on an event of theirs."""
    failed: int = 0
    """Events on which this code fails, and live did not: the first of each aggregate."""
    failures: list[HandlerFailure] = []
    """The first of them."""
    undecidable: int = 0
    """Rows that differ, and of which the stream no longer holds all events."""
    undecidable_rows: list[UndecidableRow] = []
    failed_heads: int = 0
    """Events that wait because they failed live, in all."""
    heads: list[HeadPreview] = []
    intents: dict[str, int] = {}
    """What handlers asked for over these events, by slot; nothing of it was made."""
    check: StreamCheck | None = None
    """Of a consumer that is not there yet: what it makes of the whole stream."""
    left_out: str | None = None
    """Why there was nothing to preview."""

    @property
    def mended(self) -> int:
        """Return how many of the heads that were tried this code would take."""
        return sum(one.mended is True for one in self.heads)

    @property
    def differs(self) -> bool:
        """Return whether a person should look."""
        columns = self.columns is not None and bool(self.columns)
        check = self.check is not None and self.check.troubled
        return columns or check or bool(self.differ or self.failed or self.undecidable)


def row_change(table: Table, one: Refolded, *, reveal: bool) -> RowChange:
    """Return a row that differs, as it is told."""
    names = [column.name for column in table.columns]
    live, new = _told(names, one.live), _told(names, one.folded)
    columns: list[str] = []
    if one.live is not None and one.folded is not None and live is not None and new is not None:
        columns = [names[at] for at in differing(table, one.live, one.folded)]
        live, new = ({name: side[name] for name in columns} for side in (live, new))
    side = "both" if columns else "new" if one.live is None else "live"
    shown = (live, new) if reveal else (None, None)
    assert table.key is not None, "its rows are folded one by one"
    return RowChange(table.key.shown(one.key), side, columns, *shown)


def _told(names: list[str], row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: value for name, value in zip(names, row, strict=True) if value is not UNTOLD}

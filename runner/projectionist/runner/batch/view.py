"""A view as this process runs it: its handlers, the generation they write, and what their intents are known by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.batch.row_key_type import OwnType

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.projections.compiled.definition import Definition


class ViewRow(msgspec.Struct, frozen=True):
    """The row of the database that says under what a batch runs the handlers of a view."""

    number: int = 0
    generation: int = 0
    code: bytes = b""
    revision: int = 1
    effects: tuple[int, int] = (0, 0)
    """The incarnation and sequence from which on intents are real."""
    own_type: str | None = None
    own_since: str | None = None

    @classmethod
    def of(cls, row: Row) -> ViewRow:
        """Return what a control row says of the view."""
        return cls(
            number=row["view"],
            generation=row["generation"],
            code=row["code"],
            revision=row["revision"],
            effects=(row["effects_incarnation"], row["effects_mark"]),
            own_type=row["own_type"],
            own_since=row["own_since"],
        )


class View:
    """A registered view; `Consumer.take_over` alone replaces its row."""

    def __init__(
        self, definition: Definition, key_name: str, slots: Mapping[str, str] | None, row: ViewRow
    ) -> None:
        self.definition = definition
        self.key_name = key_name
        self.row = row
        """The row as the last batch found it."""
        self._slots = slots or {}

    @property
    def number(self) -> int:
        """Return the number under which it is registered."""
        return self.row.number

    @property
    def generation(self) -> int:
        """Return the generation of the read model that batches write."""
        return self.row.generation

    @property
    def own_type(self) -> str | None:
        """Return the type of aggregate whose ids are keys of the rows, where an event has decided it."""
        return self.row.own_type

    def frozen_slot(self, slot: str) -> str:
        """Return the name under which a slot was first registered."""
        return self._slots.get(slot, slot)

    def owned(self) -> OwnType:
        """Return whose ids are keys of the rows, as far as that is known now."""
        table = self.definition.table
        column = "" if table is None or table.key is None else table.key.first.name
        return OwnType(column, self.row.own_type, self.row.own_since)

    def is_real(self, seq: int, incarnation: int) -> bool:
        """Return whether the intents of the event at this stream sequence are from behind the effects mark."""
        return (incarnation, seq) >= self.row.effects

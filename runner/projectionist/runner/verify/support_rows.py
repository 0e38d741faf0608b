"""Rows of views that others look up, folded beside the rows of these: exactly those that their events ask for.

Which they are, only the events say. So a fold that comes upon rows which it does not have yet notes them, runs no more
handlers, and is begun anew with them; once more for each view that is looked up by one that is looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from projectionist.projections.errors import BadValue
from projectionist.projections.folding.rows import Rows
from projectionist.projections.lookups import LookupSource
from projectionist.projections.tables.table_key import Keys, Prefix
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.row_key_type import OwnType

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.folding.looked_up import LookedUpRows
    from projectionist.projections.folding.step import Step
    from projectionist.runner.decoding.delivery import Delivery

Needed = Mapping[LookupSource[Any], Collection[Any]]
"""Keys of rows that are looked up, by view."""


class SupportRows:
    """The rows that one view's events look up in others, as of each event."""

    def __init__(self, connection: Connection, view: Definition, needed: Needed) -> None:
        """Take the keys that are known to be needed."""
        self._views = [_LookedUpView(connection, one, needed.get(one.source, ())) for one in view.support]
        self.needed = {one.source: set(needed.get(one.source, ())) for one in view.support}
        """The same, with what was found out since."""
        self.lacks = False
        """Whether rows are needed that are not folded: handlers cannot be run."""
        for one in self._views:
            self.give(one.view, one.looked_up)

    def give(self, view: Definition, looked_up: LookedUpRows) -> None:
        """Have what a view looks up be these rows."""
        its = {one.view: one for one in self._views}
        rows = {one.source: its[one].rows for one in view.looks_up}
        looked_up.follow(rows, {one.source: its[one].own for one in view.looks_up}, is_all=True)

    def touches(self, delivery: Delivery) -> bool:
        """Return whether an event is about one of these rows."""
        return any(one.step(delivery) is not None for one in self._views)

    async def read(self, deliveries: Iterable[Delivery]) -> None:
        """Read what these views look up in tables of others."""
        if self._views:
            some = list(deliveries)
            for one in self._views:
                await one.lookups.read_deliveries(some)

    def fold(self, delivery: Delivery) -> None:
        """Run the handlers of an event on those of its rows that are among these; raises what they raise."""
        for one in self._views:
            if (step := one.step(delivery)) is not None:
                self.note(step)
                if not self.lacks:
                    one.put(step)
                    one.own.decide(step.handler, delivery)

    def note(self, step: Step) -> None:
        """Take note of what an event looks up."""
        for ask in step.handler.asks:
            if (needed := self.needed.get(ask.source)) is None:
                continue
            try:
                keys = ask.keys(step.event, step.envelope)
            except BadValue:  # its event fails, in its turn
                continue
            if not needed.issuperset(keys):
                needed.update(keys)
                self.lacks = True


class _LookedUpView:
    """Rows of one view."""

    def __init__(self, connection: Connection, view: Definition, keys: Collection[Any]) -> None:
        assert view.table is not None, "only a Projection is looked up"
        self.view = view
        self._keys = frozenset(keys)
        lengths = {len(handler.rows) for handler in view.handlers.values() if handler.rows}
        self._beginnings = {key[:many] for key in keys for many in lengths}
        self.lookups = LookupReader(connection, view, keeps=True)
        self.looked_up = self.lookups.rows
        self.rows = Rows(view.cls, view.table, {}, self.looked_up)
        self.own = OwnType("")
        """Whose ids the keys are, by what is folded: all of it was applied, so that one type alone comes."""

    def step(self, delivery: Delivery) -> Step | None:
        """Return the step of an event that is about these rows."""
        step = None if delivery.problem is not None else step_of(self.view, delivery.seq, delivery)
        if step is None or isinstance(step.key, Exception):
            return None
        if isinstance(step.key, Keys):
            step.key = Keys(tuple(one for one in step.key.listed if one in self._keys))
            return step if step.key.listed else None
        known = (
            step.key.values in self._beginnings if isinstance(step.key, Prefix) else step.key in self._keys
        )
        return step if known else None

    def put(self, step: Step) -> None:
        """Run the handler."""
        self.rows.apply(step)

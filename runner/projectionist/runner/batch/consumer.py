"""A registered consumer: who it is, by which policy it runs, and what its control row said last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.projections.compiled.definition import Definition
from projectionist.projections.compiled.view_set import code_of_views
from projectionist.projections.folding.version_verdict import start
from projectionist.runner.batch.view import View, ViewRow
from projectionist.runner.decoding.decoder import Decoder

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.class_options import Sequencing
    from projectionist.projections.compiled.definition import ConsumerDefinition


class Superseded(ProjectionistError):
    """Another epoch, generation or code has taken this consumer over: this process must not apply anything."""


class Rejoin(ProjectionistError):
    """Stream, durable or database are not as this process left them. It opens them again, and judges them."""


class Paused(ProjectionistError):
    """An operator has paused the consumer."""


class Tripped(ProjectionistError):
    """Too many keys fail at once: nothing is fetched until the breaker closes, by itself or by an operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the breaker is open: {reason}")


def paused(name: str) -> Paused:
    """Say why this consumer applies nothing."""
    return Paused(f"consumer {name!r} is paused", remedy="Resume it when it may go on")


class ControlRow(msgspec.Struct, frozen=True):
    """The rows of the database that say under what a batch of the consumer is made."""

    epoch: int = 0
    incarnation: int = 0
    views: tuple[ViewRow, ...] = ()
    """Those that batches write, in the order of their locks."""
    repeats: bool = False
    """Whether fresh deliveries are compared with what was decided before a reset."""
    marks: int | None = None
    """The slot for dirty marks while a build is open."""

    @classmethod
    def of(cls, rows: Sequence[Row]) -> ControlRow:
        """Return what the rows of the table say, one for each view."""
        row = rows[0]
        return cls(
            epoch=row["epoch"],
            incarnation=row["incarnation"],
            views=tuple(ViewRow.of(one) for one in rows if one["view"] is not None),
            repeats=row["repeats"],
            marks=None if row["build"] is None else row["slot"],
        )

    @property
    def stand(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """Return what positions that were seen are worth nothing after a change of."""
        return self.epoch, self.incarnation, tuple((view.number, view.generation) for view in self.views)


class Consumer:
    """A registered consumer as this process runs it; nobody else writes its attributes."""

    def __init__(
        self,
        definition: ConsumerDefinition,
        policy: Policy,
        number: int,
        runner: int,
        views: Sequence[View],
        control: ControlRow | None = None,
    ) -> None:
        self.definition = definition
        self.policy = policy
        self.number = number
        self.runner = runner
        self.control = control or ControlRow()
        """The row as the last batch found it."""
        self.members = tuple(views)
        """All views of its class that are registered, in the order in which their handlers run."""
        self.views = self.members
        """Those of them that batches write."""
        if self.control.views:
            self._take_over(self.control)

    @classmethod
    def of_view(
        cls,
        definition: Definition,
        policy: Policy,
        number: int,
        key_name: str,
        runner: int = 0,
        *,
        slots: Mapping[str, str] | None = None,
        control: ControlRow | None = None,
    ) -> Consumer:
        """Return a consumer as far as one of its views is concerned: what is about a single view needs no other."""
        row = control.views[0] if control is not None and control.views else ViewRow()
        return cls(definition, policy, number, runner, [View(definition, key_name, slots, row)], control)

    @property
    def view(self) -> View:
        """Return its view, where it is one."""
        (only,) = self.views
        return only

    @cached_property
    def reader(self) -> Decoder:
        """Return the one decoder of its events in this process."""
        return Decoder.of(self.definition, self.policy, self.control.incarnation or 1)

    @property
    def code(self) -> bytes:
        """Return the fingerprint of the code that its batches run: of a set, without views that are left out."""
        if isinstance(self.definition, Definition):
            return self.definition.code
        return code_of_views((view.key_name, view.definition.code) for view in self.views)

    @property
    def sequence(self) -> Sequencing:
        """Return in which order its events are applied."""
        return self.definition.sequence

    @property
    def start(self) -> int:
        """Return the version that its aggregates' positions start at."""
        return start(self.definition.baseline)

    @property
    def gap_fetch_delay_s(self) -> float:
        """Return how long a new gap is left alone."""
        return self.policy.gap_fetch_delay_ms / 1000

    @property
    def stores_first(self) -> bool:
        """Return whether events are acked when they are safe in the inbox, and applied from there."""
        return self.policy.ack == "after-store"

    @property
    def incarnation(self) -> int:
        """Return the number of the stream that is read, among those that had its name."""
        return self.control.incarnation

    def check(self, rows: Sequence[Row]) -> None:
        """Take over the control rows that hold now; refuse a batch that must not be made under them."""
        name = self.definition.name
        if not rows:
            raise Superseded(f"consumer {name!r} is no longer registered")
        row, found = rows[0], ControlRow.of(rows)
        if not self.runs(found):
            raise Superseded(f"newer code has taken over consumer {name!r}")
        if row["paused"]:
            raise paused(name)
        if row["breaker"] is not None and (row["breaker"], row["prober"]) != ("half_open", self.runner):
            raise Tripped(row["trouble"])
        if row["incarnation"] != self.incarnation:
            raise Rejoin(f"consumer {name!r} reads another incarnation of its stream now")
        self._take_over(found)

    def runs(self, control: ControlRow) -> bool:
        """Return whether this process has each view that batches write now, with the code that they are to run."""
        mine = {view.number: view.definition for view in self.members}
        return all(
            (its := mine.get(row.number)) is not None and (row.code, row.revision) == (its.code, its.revision)
            for row in control.views
        )

    def _take_over(self, control: ControlRow) -> None:
        """Go on under this control row: with the views that it names, and without the others of the class."""
        rows = {row.number: row for row in control.views}
        self.control = control
        for view in self.members:
            view.row = rows.get(view.number, view.row)
        self.views = tuple(view for view in self.members if view.number in rows)

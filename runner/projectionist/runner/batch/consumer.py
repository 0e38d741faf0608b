"""A registered consumer: who it is, by which policy it runs, and what its control row said last."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.projections.folding.version_verdict import start
from projectionist.runner.batch.view import View, ViewRow
from projectionist.runner.decoding.decoder import Decoder

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import Definition, Sequencing


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
    """The row of the database that says under what a batch of the consumer is made."""

    epoch: int = 0
    incarnation: int = 0
    view: ViewRow = ViewRow()
    repeats: bool = False
    """Whether fresh deliveries are compared with what was decided before a reset."""
    marks: int | None = None
    """The slot for dirty marks while a build is open."""

    @classmethod
    def of(cls, row: Row) -> ControlRow:
        """Return what a row of the table says."""
        return cls(
            epoch=row["epoch"],
            incarnation=row["incarnation"],
            view=ViewRow.of(row),
            repeats=row["repeats"],
            marks=None if row["build"] is None else row["slot"],
        )

    @property
    def stand(self) -> tuple[int, int, int]:
        """Return what positions that were seen are worth nothing after a change of."""
        return self.epoch, self.incarnation, self.view.generation


class Consumer:
    """A registered consumer as this process runs it; nobody else writes its attributes."""

    def __init__(
        self,
        definition: Definition,
        policy: Policy,
        number: int,
        key_name: str,
        runner: int,
        *,
        slots: Mapping[str, str] | None = None,
        control: ControlRow | None = None,
    ) -> None:
        self.definition = definition
        self.policy = policy
        self.number = number
        self.runner = runner
        self.control = control or ControlRow()
        """The row as the last batch found it."""
        self.view = View(definition, key_name, slots, self.control.view)

    @cached_property
    def reader(self) -> Decoder:
        """Return the one decoder of its events in this process."""
        return Decoder.of(self.definition, self.policy, self.control.incarnation or 1)

    @property
    def code(self) -> bytes:
        """Return the fingerprint of its code."""
        return self.definition.code

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

    def check(self, row: Row | None) -> None:
        """Take over the control row that holds now; refuse a batch that must not be made under it."""
        if row is None:
            raise Superseded(f"consumer {self.definition.name!r} is no longer registered")
        # Also of two revisions of the same code: that is raised where something else changes what events do.
        if (row["code"], row["revision"]) != (self.code, self.definition.revision):
            raise Superseded(f"newer code has taken over consumer {self.definition.name!r}")
        if row["paused"]:
            raise paused(self.definition.name)
        if row["breaker"] is not None and (row["breaker"], row["prober"]) != ("half_open", self.runner):
            raise Tripped(row["trouble"])
        if row["incarnation"] != self.incarnation:
            raise Rejoin(f"consumer {self.definition.name!r} reads another incarnation of its stream now")
        self.control = ControlRow.of(row)
        self.view.row = self.control.view

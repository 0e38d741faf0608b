"""What one process knows of one consumer while it runs: its policy, its registration, and which positions exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.projections.folding.version_verdict import start
from projectionist.runner.batch.batch_spans import BatchTracer
from projectionist.runner.batch.counted_types import CountedTypes
from projectionist.runner.batch.failure_evidence import ConsumerProgress
from projectionist.runner.batch.parked_rows import ParkedDecoder
from projectionist.runner.batch.position_cache import PositionCache
from projectionist.runner.batch.row_key_type import OwnType
from projectionist.runner.decoding.decoder import Decoder

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.batch.intents import IntentFactory


class Superseded(ProjectionistError):
    """Another epoch, generation or code has taken this consumer over: this process must not apply anything."""


class Rejoin(ProjectionistError):
    """Stream, durable or database are not as this process left them. It opens them again, and judges them."""


class Paused(ProjectionistError):
    """An operator has paused the consumer."""


class Tripped(ProjectionistError):
    """Too many keys fail at once: nothing is fetched until the breaker closes, by itself or by a verb."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the breaker is open: {reason}")


def paused(name: str) -> Paused:
    """Why this consumer applies nothing."""
    return Paused(f"consumer {name!r} is paused", remedy="Resume it when it may go on")


class Consumer:
    """A registered consumer as this process runs it."""

    def __init__(
        self,
        definition: Definition,
        policy: Policy,
        number: int,
        key_name: str,
        runner: int,
        slots: Mapping[str, str] | None = None,
    ) -> None:
        self.definition = definition
        self.policy = policy
        self.number = number
        self.key_name = key_name
        self.runner = runner
        self._slots = slots or {}
        self.recipes: dict[tuple[type, str], IntentFactory] = {}
        """How intents are made, by class and slot."""
        self.sequence = definition.sequence
        self.start = start(definition.baseline)
        self.grace_s = policy.gap_grace_ms / 1000
        self.code = definition.code
        self.epoch = 0
        self.incarnation = 0
        self.generation = 0
        self.effects: tuple[int, int] = (0, 0)
        self.own_type: str | None = None
        self.own_since: str | None = None
        self.repeats = False
        """Whether fresh deliveries are compared with what was decided before a reset."""
        self.marks: int | None = None
        """The slot for dirty marks while a build is open."""
        self.exists = PositionCache()
        self.progress = ConsumerProgress()
        self.kinds = CountedTypes(definition.known)
        self.witness: tuple[str, str, int] | None = None
        """Source, id and sequence of an event that the last commit has settled: a database without is an older one."""
        self.reader = Decoder(
            policy,
            stream=definition.stream,
            ordered=definition.sequence != "unordered",
            match=definition.subjects.match,
            known=definition.known,
            decode=definition.decode,
        )
        self.parking = ParkedDecoder(definition.stream, self.reader)
        self.tracing = BatchTracer(definition)
        self.sources: frozenset[str] = frozenset()
        """Those that are told apart where events are counted for metrics."""
        self._batches = 0

    @property
    def stores_first(self) -> bool:
        """Whether events are acked when they are safe in the inbox, and applied from there."""
        return self.policy.ack == "after-store"

    def next_batch(self) -> int:
        """A number for a batch that no other process uses."""
        self._batches += 1
        return self.runner << 32 | self._batches

    def join(self, control: Row) -> None:
        """Take over what the control row says, at start or after another epoch has begun."""
        self.epoch, self.incarnation = control["epoch"], control["incarnation"]
        self.generation = control["generation"]
        self.reader.incarnation = self.incarnation
        self.effects = (control["effects_incarnation"], control["effects_mark"])
        self.exists.clear()

    def check(self, control: Row | None) -> None:
        """Refuse a batch that was made under another control row than the one that holds now."""
        if control is None:
            raise Superseded(f"consumer {self.definition.name!r} is no longer registered")
        # Also of two revisions of the same code: that is raised where something else changes what events do.
        if (control["code"], control["revision"]) != (self.code, self.definition.revision):
            raise Superseded(f"newer code has taken over consumer {self.definition.name!r}")
        if control["paused"]:
            raise paused(self.definition.name)
        if control["breaker"] is not None and (control["breaker"], control["prober"]) != (
            *("half_open", self.runner),
        ):
            raise Tripped(control["trouble"])
        if control["incarnation"] != self.incarnation:
            raise Rejoin(f"consumer {self.definition.name!r} reads another incarnation of its stream now")
        if (control["epoch"], control["incarnation"], control["generation"]) != (
            *(self.epoch, self.incarnation, self.generation),
        ):
            self.join(control)
        self.own_type, self.own_since = control["own_type"], control["own_since"]
        self.repeats = control["repeats"]
        self.marks = None if control["build"] is None else control["slot"]

    def frozen_slot(self, slot: str) -> str:
        """The name under which a slot was first registered."""
        return self._slots.get(slot, slot)

    def owned(self) -> OwnType:
        """Whose ids are keys of the rows, as far as that is known now."""
        table = self.definition.table
        column = "" if table is None or table.key is None else table.key.name
        return OwnType(column, self.own_type, self.own_since)

    def is_real(self, seq: int, incarnation: int | None = None) -> bool:
        """Whether the intents of the event at this stream sequence are real, or from before the effects mark."""
        return (self.incarnation if incarnation is None else incarnation, seq) >= self.effects

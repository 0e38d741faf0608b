"""`given(OrderSummary).when("order/o-1", OrderPlaced(…))`: what handlers make of events, without servers.

Events are written as a producer writes them, read as a consumer reads them and folded as the runner folds them: by the
same code, so that JSON, upcasts, `key=`, `when=` and the values that PostgreSQL gives back count here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from projectionist.core.errors import DefinitionError
from projectionist.core.settings.settings import Policy
from projectionist.outbox.intents.intent import Intent, Scheduled
from projectionist.outbox.intents.schedule import Cancel, wish_of
from projectionist.projections.compiled.definition import (
    Definition,
    Kind,
    ViewDeclaration,
    compiled_of,
    definition,
)
from projectionist.projections.compiled.view_set import bound_alone
from projectionist.projections.errors import BadValue
from projectionist.projections.event import AnyEvent
from projectionist.projections.folding.fold import fold
from projectionist.projections.folding.rows import Row, thawed
from projectionist.projections.folding.step import Step
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import TableKey
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.row_key_type import OwnType
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery, Unreadable
from projectionist.testing.event_drafts import NOON, EventPlace, OldEvent, arrival_of, drafted, subject_of
from projectionist.testing.lookup_rows import LookupRows

__all__ = ["OldEvent", "Scenario", "given"]

T = TypeVar("T")

CONDITION = "condition false"
NO_HANDLER = "no handler"
ERASED = "erased"
BEHIND = "behind a failed event"


def tested(consumer: type) -> Definition:
    """Return what the class of a consumer or view declares; raises DefinitionError for one that needs a database."""
    found = (
        bound_alone(consumer) if isinstance(compiled_of(consumer), ViewDeclaration) else definition(consumer)
    )
    if found.kind is Kind.SQL:
        raise DefinitionError(
            f"{found.name} is a SqlProjection, whose handlers need a database",
            remedy="Test it with the fixture `projectionist`, on a real one",
        )
    return found


def given(consumer: type[T], *rows: T) -> Scenario[T]:
    """Return a scenario of a Projection, which holds these rows, or of a Reactor; of a set, name one of its views."""
    return Scenario(consumer, rows)


class Scenario(Generic[T]):
    """Rows of one consumer, the events that came to it, and what its handlers made of them."""

    def __init__(self, consumer: type[T], rows: Iterable[T] = ()) -> None:
        self._definition = tested(consumer)
        self._cls = consumer
        self._decoder = Decoder.of(self._definition, Policy())
        self._own = OwnType("" if self._definition.table is None else self._key.first.name)
        self._rows: dict[Any, Row] = dict(self._stored(row) for row in rows)
        self._lookup_rows = LookupRows(self._definition)
        self._versions: dict[str, int] = {}
        self._events = 0
        self._stopped: set[str | None] = set()
        self._failures: list[str] = []
        self._stacks: list[str] = []
        self._intents: list[Intent | Scheduled | Cancel] = []
        self._skipped: list[str] = []

    def looking_up(self, *rows: object) -> Self:
        """Let handlers find these rows from now on: instances of the classes of tables that they look up."""
        self._lookup_rows.put(rows)
        return self

    def when(
        self,
        aggregate: str,
        *events: AnyEvent | OldEvent,
        time: datetime = NOON,
        correlation: str | None = None,
        causation: str | None = None,
    ) -> Self:
        """Let events of one aggregate (`type/id`) come, in consecutive versions, in their newest shape or an older one.

        They happen at noon of 1 January 2026 unless `time` says otherwise. Raises PublishError for an event that no
        consumer could read; what a handler raises stands in `failed`.
        """
        for event in events:
            version = self._versions.get(aggregate, self._begins()) + 1
            self._versions[aggregate] = version
            at = EventPlace(
                aggregate=aggregate, version=version, time=time, correlation=correlation, causation=causation
            )
            draft = drafted(event, at, subject_of(self._definition, aggregate))
            self._events += 1
            self._read(self._decoder.read(arrival_of(draft, self._definition.stream, self._events)))
        return self

    def row(self, key: object) -> T:
        """Return the row of this key, as its handlers would see it next; AssertionError where there is none."""
        try:
            return self.rows[self._key.stored(key)]
        except KeyError:
            known = ", ".join(map(repr, self._rows)) or "none"
            raise AssertionError(
                f"there is no row {key!r} of {self._definition.name}. Rows: {known}"
            ) from None

    @property
    def rows(self) -> dict[Any, T]:
        """Return all rows, by key."""
        self._refuse_failures()
        return {key: thawed(self._cls, self._table, row) for key, row in self._rows.items()}

    @property
    def intents(self) -> list[Intent | Scheduled | Cancel]:
        """Return the intents, in the order in which handlers asked for them.

        One that is to be sent later is `Reminder(…).at(moment)`, and what takes it back a `Cancel(Reminder)`.
        """
        self._refuse_failures()
        return list(self._intents)

    @property
    def skipped(self) -> list[str]:
        """Return why events had no effect: `condition false`, `no handler`, `erased`,
        `behind a failed event`."""
        self._refuse_failures()
        return list(self._skipped)

    @property
    def failed(self) -> list[str]:
        """Return the failures, such as `Refuse: no such order`. One that no test asks for is an error elsewhere."""
        self._stacks.clear()
        return list(self._failures)

    @property
    def _table(self) -> Table:
        if self._definition.table is None:
            raise DefinitionError(
                f"{self._definition.name} is a Reactor, which has no rows", remedy="Look at its intents"
            )
        return self._definition.table

    @property
    def _key(self) -> TableKey:
        key = self._table.key
        assert key is not None, "it has columns"
        return key

    def _stored(self, row: T) -> tuple[Any, Row]:
        values = tuple(column.stored(getattr(row, column.name)) for column in self._table.columns)
        return self._key.of(values), values

    def _begins(self) -> int:
        baseline = self._definition.baseline
        return baseline - 1 if isinstance(baseline, int) else 0

    def _read(self, found: Delivery | Unreadable | None) -> None:
        assert found is not None, "the subject is one of the consumer's own"
        if isinstance(found, Unreadable):
            self._fail(None, f"{found.reason}: {found.detail}")
            return
        unit = None if self._definition.sequence == "unordered" else found.aggregate
        if unit is not None and unit in self._stopped:
            self._skipped.append(BEHIND)
        elif found.problem is not None:
            self._fail(unit, found.problem)
        elif (step := step_of(self._definition, 0, found)) is None:
            self._skipped.append(ERASED if found.erased else NO_HANDLER)
        else:
            self._fold(step, found, unit)

    def _fold(self, step: Step, delivery: Delivery, unit: str | None) -> None:
        try:
            self._own.check(step.handler, delivery.aggregate)
        except BadValue as bad:
            step.key = bad
        looked_up = self._lookup_rows.of([step])
        folded = fold(self._definition, [step], self._rows, looked_up=looked_up)
        for failure in folded.failures.values():
            self._fail(unit, f"{failure.error_class}: {failure.message}", failure.stack)
            return
        self._own.decide(step.handler, delivery)
        self._skipped += [CONDITION] * len(folded.idle)
        self._intents += [wish_of(one) for _, one in folded.intents]
        for key, row in folded.rows.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row

    def _fail(self, unit: str | None, text: str, stack: str = "") -> None:
        self._failures.append(text)
        self._stacks.append(f"{text}\n{stack}".rstrip())
        if unit is not None:
            self._stopped.add(unit)

    def _refuse_failures(self) -> None:
        """Raise AssertionError for failures that the test has not looked at: it does not expect them."""
        if self._stacks:
            raise AssertionError("\n".join(["an event failed; `failed` would tell of it:", *self._stacks]))

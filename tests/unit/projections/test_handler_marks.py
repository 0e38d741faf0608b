"""What `@on` takes beside an event: several events, functions that read the envelope, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.projections.folding import folded
from tests.unit.projections.shop import OrderPaid, OrderPlaced

from projectionist.core.errors import DefinitionError
from projectionist.outbox import Intent
from projectionist.projections import Envelope, Projection, Reactor, definition, on

PLACED = OrderPlaced("o-1", "ann", "ann@example.org", 100)


class Seen(Intent, provider="log"):
    what: str


def test_one_handler_of_two_events_is_called_for_both() -> None:
    class Last(Projection, stream="S", subjects="s.{aggregate}", table="last_event", key="id"):
        id: str
        kinds: str = ""

        @on(OrderPlaced, OrderPaid, key=lambda event: event.order_id)
        def seen(self, event: OrderPlaced | OrderPaid) -> None:
            self.kinds += type(event).__name__[5:]

    assert definition(Last).known == {"order.placed", "order.paid"}
    assert folded(Last, ("o-1", PLACED), ("o-1", OrderPaid("o-1"))).rows == {"o-1": ("o-1", "PlacedPaid")}


def test_a_key_may_be_taken_from_the_envelope() -> None:
    def by_event(event: OrderPlaced, envelope: Envelope) -> str:
        return f"{event.customer}/{envelope.id}"

    class PerEvent(Projection, stream="S", subjects="s.{aggregate}", table="per_event", key="id"):
        id: str
        cents: int = 0

        @on(OrderPlaced, key=by_event)
        def placed(self, event: OrderPlaced) -> None:
            self.cents += event.total_cents

    rows = folded(PerEvent, ("o-1", PLACED), ("o-1", PLACED)).rows
    assert rows == {"ann/e-0": ("ann/e-0", 100), "ann/e-1": ("ann/e-1", 100)}


def test_a_condition_may_read_the_envelope() -> None:
    class Later(Projection, stream="S", subjects="s.{aggregate}", table="later", key="id"):
        id: str
        count: int = 0

        @on(OrderPaid, when=lambda row, event, envelope: envelope.id != "e-0")
        def paid(self, event: OrderPaid) -> None:
            self.count += 1

    class Mailer(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid, when=lambda mailer, event, envelope: envelope.id != "e-0")
        def paid(self, event: OrderPaid) -> Seen:
            return Seen(what=event.order_id)

    events = [("o-1", OrderPaid("o-1")), ("o-1", OrderPaid("o-1"))]
    assert folded(Later, *events).rows == {"o-1": ("o-1", 1)}
    assert [step.index for step in folded(Later, *events).idle] == [0]
    assert [index for index, _ in folded(Mailer, *events).intents] == [1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"key": lambda: 1}, r"key=<lambda>\) takes \(\)"),
        ({"key": lambda a, b, c: 1}, "takes"),
        ({"when": lambda row: True}, r"when=<lambda>\) takes \(row\)"),
        ({"when": lambda a, b, c, d: True}, "takes"),
        ({"when": True}, "when=True"),
    ],
)
def test_a_function_of_another_shape_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says) as refused:
        on(OrderPaid, **arguments)
    assert "envelope" in str(refused.value)


def test_on_without_an_event_is_refused() -> None:
    with pytest.raises(DefinitionError, match="names no event"):
        on()  # type: ignore[call-overload] # the point


def test_an_assignment_to_what_is_no_field_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Sum\.paid sets self\.totl, which is no field of Sum"):

        class Sum(Projection, stream="S", subjects="s.{aggregate}", table="misspelt", key="id"):
            id: str
            total: int = 0

            @on(OrderPaid)
            def paid(self, event: OrderPaid) -> None:
                self.totl = self.total + 1

"""Staging of emitted intents: below the mark they are counted, above it they are rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from tests.support.deliveries import delivery
from tests.support.servers import Stream
from tests.support.shop import Receipt, shop

from projectionist.core.settings.settings import Policy
from projectionist.outbox import Intent, intent_key
from projectionist.outbox.intents.intent import EmittedIntent, ordering_of
from projectionist.outbox.intents.keys import frozen_body
from projectionist.outbox.intents.schedule import Emitted, EmittedCancel
from projectionist.outbox.intents.staging import StagedIntent
from projectionist.projections import definition
from projectionist.runner.batch.consumer import Consumer, ControlRow
from projectionist.runner.batch.intents import IntentFactories, stage_intents
from projectionist.runner.batch.view import ViewRow
from projectionist.runner.batch.writes import BatchWrites
from projectionist.runner.decoding.delivery import Delivery


class Parcel(Intent, provider="courier", destination="depot", order_by="street", on_dead="block"):
    """An intent with an order and a destination of its own."""

    depot: str
    street: str


class Wave(Intent, provider="courier", order_by=None):
    """An intent in no order."""


def consumer(mark: int = 0) -> Consumer:
    """A consumer renamed since its registration, whose effects are real from `mark` on."""
    orders = definition(shop(Stream("SHOP")).Orders)
    control = ControlRow(incarnation=1, views=(ViewRow(effects=(1, mark)),))
    return Consumer.of_view(orders, Policy(), 1, "OldOrders", 7, slots={"Receipt": "Mail"}, control=control)


def emitted(
    seq: int, intent: Intent, slot: str = "Receipt", version: int = 1, aggregate: str = "order/o1"
) -> tuple[Delivery, EmittedIntent]:
    """An intent that a handler emitted about the event at `seq`."""
    return delivery(version, aggregate, seq=seq), EmittedIntent(slot, intent, frozen_body(intent))


def staged_of(
    asked: Iterable[tuple[Delivery, Emitted]], who: Consumer, writes: BatchWrites
) -> list[StagedIntent]:
    """What is written of the intents of this consumer's only view."""
    return stage_intents([(*one, who.view) for one in asked], IntentFactories(who), writes)


def test_an_intent_carries_the_key_of_registered_names_and_its_frozen_content() -> None:
    receipt = Receipt("o1")
    (staged,) = staged_of([emitted(5, receipt)], consumer(), BatchWrites())

    assert staged.key == intent_key("OldOrders", "shop", "order/o1:1", "Mail")
    assert staged.body == frozen_body(receipt)
    assert (staged.slot, staged.class_name, staged.provider, staged.destination) == (
        "Mail",
        "Receipt",
        "email",
        "email",
    )


def test_destination_order_and_what_follows_death_are_the_classes_to_say() -> None:
    (staged,) = staged_of([emitted(5, Parcel("north", "elm"), "Parcel")], consumer(), BatchWrites())

    assert (staged.destination, staged.on_dead) == ("north", "block")
    assert staged.ordering == "9:OldOrders7:courier3:elm"


def test_by_default_the_intents_of_one_aggregate_for_one_provider_are_in_order() -> None:
    first, second = ordering_of(Receipt("x"), "A", "order/1"), ordering_of(Receipt("y"), "A", "order/1")
    assert first == second
    assert ordering_of(Receipt("x"), "A", "order/2") != first
    assert ordering_of(Receipt("x"), "B", "order/1") != first
    assert ordering_of(Wave(), "A", "order/1") is None
    assert ordering_of(Receipt("x"), "A", None) is None


@given(st.lists(st.integers(1, 30), unique=True), st.integers(0, 31))
def test_every_intent_is_either_written_or_counted_as_suppressed(seqs: list[int], mark: int) -> None:
    writes = BatchWrites()
    staged = staged_of([emitted(seq, Receipt("x"), version=seq) for seq in seqs], consumer(mark), writes)

    assert sorted(one.seq for one in staged) == sorted(seq for seq in seqs if seq >= mark)
    assert writes.counts["order.placed", "intents"] == len(staged)
    assert writes.counts["order.placed", "suppressed_Receipt"] == len(seqs) - len(staged)


def test_intents_are_written_in_the_order_they_were_asked_for() -> None:
    order = [("order/b", 1), ("order/a", 1), ("order/a", 2), ("order/b", 3), ("order/a", 10)]
    asked = [emitted(n, Receipt("x"), version=v, aggregate=a) for n, (a, v) in enumerate(order, 1)]

    assert [(one.aggregate, one.version) for one in staged_of(asked, consumer(), BatchWrites())] == order


def test_a_cancel_of_one_row_is_about_what_that_row_alone_has_scheduled() -> None:
    made, wishes = consumer(), [('["o1",0]', 5), ('["o1",1]', 5), (None, 5)]
    asked = [
        (
            delivery(1, "order/o1", seq=seq),
            EmittedIntent("Receipt", Receipt("o1"), b"{}", datetime(2026, 1, 1, tzinfo=UTC), scope),
        )
        for scope, seq in wishes
    ]
    taken = [
        (delivery(2, "order/o1", seq=6), EmittedCancel("Receipt", Receipt, scope)) for scope, _ in wishes
    ]
    scheduled, cancels = (staged_of(some, made, BatchWrites()) for some in (asked, taken))

    assert [one.slot for one in scheduled] == [one.slot for one in cancels]
    assert len({one.slot for one in scheduled}) == len({one.key for one in (*scheduled, *cancels)}) / 2 == 3
    assert scheduled[2].slot == "Mail"
    assert "o1" not in scheduled[0].slot, "a row's key is content, and a slot is not"


def test_intents_of_two_rows_have_two_keys_and_the_slot_of_their_class() -> None:
    one, other = (
        (delivery(1, "order/o1", seq=5), EmittedIntent("Receipt", Receipt("o1"), b"{}", None, scope))
        for scope in ('["o1",0]', '["o1",1]')
    )
    first, second = staged_of([one, other], consumer(), BatchWrites())

    assert first.key == intent_key("OldOrders", "shop", "order/o1:1", "Mail", '["o1",0]') != second.key
    assert first.slot == second.slot == "Mail"
    assert (first.scope, second.scope) == ('["o1",0]', '["o1",1]')

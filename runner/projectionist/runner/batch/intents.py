"""Stages the intents that handlers emitted; those below the effects mark are counted and dropped. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from projectionist.outbox import AGGREGATE, options_of
from projectionist.outbox.intents.intent import destination_of, ordering_of
from projectionist.outbox.intents.keys import cancel_key, key_maker, ordering_maker
from projectionist.outbox.intents.schedule import EmittedCancel, expires_s
from projectionist.outbox.intents.staging import Guard, StagedIntent

if TYPE_CHECKING:
    from projectionist.outbox import Intent, IntentOptions
    from projectionist.outbox.intents.schedule import Emitted
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.view import View
    from projectionist.runner.batch.writes import BatchWrites
    from projectionist.runner.decoding.delivery import Delivery


class IntentFactory(msgspec.Struct, frozen=True):
    """The common part of all intents of one class in one slot, worked out once."""

    options: IntentOptions
    slot: str
    key: Callable[[str, str, str | None], str]
    ordering: Callable[[str], str]
    by_aggregate: bool
    """It is ordered by the event's aggregate, as nearly always."""


class IntentFactories:
    """The factories of one consumer's intents, each made when its view, class and slot are met for the first time."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self._made: dict[tuple[str, type, str], IntentFactory] = {}

    def of(self, view: View, intent: Intent, slot: str) -> IntentFactory:
        """Return how intents of this class in this slot of a view are made."""
        return self._made.get((view.key_name, type(intent), slot)) or self._make(view, intent, slot)

    def _make(self, view: View, intent: Intent, slot: str) -> IntentFactory:
        key_name, frozen = view.key_name, view.frozen_slot(slot)
        options = options_of(intent)
        if len(self._made) >= _MOST_FACTORIES:
            self._made.clear()
        made = self._made[key_name, type(intent), slot] = IntentFactory(
            options,
            frozen,
            key_maker(key_name, frozen),
            ordering_maker(key_name, options.provider),
            options.order_by is AGGREGATE,
        )
        return made


_MOST_FACTORIES = 1000
"""Slots may be made up of an event's content, and then there is no end of them."""


def stage_intents(
    emitted: Iterable[tuple[Delivery, Emitted, View]], factories: IntentFactories, writes: BatchWrites
) -> list[StagedIntent]:
    """Return the intents to write, in the order handlers emitted them; count the silent ones."""
    staged: list[StagedIntent] = []
    read = factories.consumer.incarnation
    for delivery, one, view in emitted:
        incarnation = read if delivery.incarnation is None else delivery.incarnation
        if not view.is_real(delivery.seq, incarnation):
            # By the class: a slot may be made up of an event's content, and a counter is kept for each name.
            writes.count(delivery, f"suppressed_{options_of(one.intent).slot}")
            continue
        if isinstance(one, EmittedCancel):
            staged.append(_cancel(delivery, one, view))
            writes.count(delivery, "cancels")
            continue
        intent = one.intent
        factory = factories.of(view, intent, one.slot)
        options, aggregate = factory.options, delivery.aggregate
        staged.append(
            StagedIntent(
                key=factory.key(delivery.source, delivery.id, one.scope),
                source=delivery.source,
                id=delivery.id,
                aggregate=aggregate,
                version=delivery.version,
                slot=factory.slot if one.due is None else scoped_slot(factory.slot, one.scope),
                class_name=options.name,
                provider=options.provider,
                destination=destination_of(intent),
                ordering=factory.ordering(aggregate)
                if factory.by_aggregate and aggregate is not None
                else ordering_of(intent, view.key_name, aggregate),
                on_dead=options.on_dead,
                body=one.body,
                traceparent=delivery.traceparent,
                tracestate=delivery.tracestate,
                seq=delivery.seq,
                baggage=delivery.baggage,
                due=None if one.due is None else one.due.isoformat(),
                guard=None if one.due is None else _GUARDS[options.when_behind],
                expires_s=None if one.due is None else expires_s(options),
                view=view.number,
                scope=one.scope,
            )
        )
        writes.count(delivery, "intents")
    return staged


def scoped_slot(slot: str, scope: str | None) -> str:
    """Return under which slot an intent waits, so that a Cancel of one row takes back that row's alone.

    A digest stands for the row's key, which is content: a slot is shown, and outlives an erase.
    """
    return slot if scope is None else f"{slot}#{blake2b(scope.encode(), digest_size=8).hexdigest()}"


_GUARDS = {"wait": Guard.CAUGHT_UP, "send": Guard.CLOCK}


def _cancel(delivery: Delivery, one: EmittedCancel, view: View) -> StagedIntent:
    options, slot = options_of(one.intent), scoped_slot(view.frozen_slot(one.slot), one.scope)
    return StagedIntent(
        key=cancel_key(view.key_name, delivery.source, delivery.id, options.name, slot),
        source=delivery.source,
        id=delivery.id,
        aggregate=delivery.aggregate,
        version=delivery.version,
        slot=slot,
        class_name=options.name,
        provider=options.provider,
        destination="",
        ordering=None,
        on_dead=options.on_dead,
        body=b"",
        traceparent=None,
        tracestate=None,
        seq=delivery.seq,
        cancels=msgspec.json.encode([options.name, *options.formerly]).decode(),
        view=view.number,
    )

"""Stages the intents that handlers emitted; those below the effects mark are counted and dropped. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from projectionist.outbox import AGGREGATE, options_of
from projectionist.outbox.intents.intent import destination_of, ordering_of
from projectionist.outbox.intents.keys import key_maker, ordering_maker
from projectionist.outbox.intents.staging import StagedIntent

if TYPE_CHECKING:
    from projectionist.outbox import Intent, IntentOptions
    from projectionist.outbox.intents.intent import EmittedIntent
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.writes import BatchWrites
    from projectionist.runner.decoding.delivery import Delivery


class IntentFactory(msgspec.Struct, frozen=True):
    """The common part of all intents of one class in one slot, worked out once."""

    options: IntentOptions
    slot: str
    key: Callable[[str, str], str]
    ordering: Callable[[str], str]
    by_aggregate: bool
    """It is ordered by the event's aggregate, as nearly always."""


def stage_intents(
    emitted: Iterable[tuple[Delivery, EmittedIntent]], consumer: Consumer, writes: BatchWrites
) -> list[StagedIntent]:
    """Return the intents to write, in the order handlers emitted them; count the silent ones."""
    staged: list[StagedIntent] = []
    recipes = consumer.recipes
    for delivery, one in emitted:
        intent = one.intent
        if not consumer.is_real(delivery.seq, delivery.incarnation):
            # By the class: a slot may be made up of an event's content, and a counter is kept for each name.
            writes.count(delivery, f"suppressed_{options_of(intent).slot}")
            continue
        recipe = recipes.get((type(intent), one.slot)) or _recipe(consumer, intent, one.slot)
        options, aggregate = recipe.options, delivery.aggregate
        staged.append(
            StagedIntent(
                key=recipe.key(delivery.source, delivery.id),
                source=delivery.source,
                id=delivery.id,
                aggregate=aggregate,
                version=delivery.version,
                slot=recipe.slot,
                class_name=options.name,
                provider=options.provider,
                destination=destination_of(intent),
                ordering=recipe.ordering(aggregate)
                if recipe.by_aggregate and aggregate is not None
                else ordering_of(intent, consumer.key_name, aggregate),
                on_dead=options.on_dead,
                body=one.body,
                traceparent=delivery.traceparent,
                tracestate=delivery.tracestate,
                seq=delivery.seq,
            )
        )
        writes.count(delivery, "intents")
    return staged


_MOST_RECIPES = 1000
"""Slots may be made up of an event's content, and then there is no end of them."""


def _recipe(consumer: Consumer, intent: Intent, slot: str) -> IntentFactory:
    frozen = consumer.frozen_slot(slot)
    options = options_of(intent)
    recipe = IntentFactory(
        options,
        frozen,
        key_maker(consumer.key_name, frozen),
        ordering_maker(consumer.key_name, options.provider),
        options.order_by is AGGREGATE,
    )
    if len(consumer.recipes) >= _MOST_RECIPES:
        consumer.recipes.clear()
    consumer.recipes[type(intent), slot] = recipe
    return recipe

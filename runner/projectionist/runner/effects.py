"""From what handlers asked for to rows: intents below the effects mark are counted and dropped. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.outbox import AGGREGATE, body_hash, intent_key, options_of
from projectionist.outbox.keys import ordering_key as intent_ordering
from projectionist.runner.writes import Wish

if TYPE_CHECKING:
    from projectionist.outbox import Intent
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.delivery import Delivery
    from projectionist.runner.model import Wished
    from projectionist.runner.writes import Writes


def wishes_of(wished: Iterable[Wished], consumer: Consumer, writes: Writes) -> list[Wish]:
    """The intents to write, in the order of aggregates, versions and slots; the silent ones are counted."""
    wishes = []
    for one in wished:
        delivery = one.delivery
        if consumer.is_real(delivery.seq, delivery.incarnation):
            wishes.append(_wish(consumer, one))
            writes.counts[delivery.type, "intents"] += 1
        else:
            # By the class: a slot may be made up of an event's content, and a counter is kept for each name.
            writes.counts[delivery.type, f"suppressed_{options_of(one.intent).slot}"] += 1
    wishes.sort(key=lambda w: (w.aggregate or "", w.version or 0, w.slot))
    return wishes


def _wish(consumer: Consumer, wished: Wished) -> Wish:
    """One intent with the key that every attempt will carry."""
    delivery, intent, slot = wished.delivery, wished.intent, consumer.frozen_slot(wished.slot)
    options = options_of(intent)
    destination = (
        options.provider if options.destination is None else str(getattr(intent, options.destination))
    )
    return Wish(
        key=intent_key(consumer.key_name, delivery.source, delivery.id, slot),
        source=delivery.source,
        id=delivery.id,
        aggregate=delivery.aggregate,
        version=delivery.version,
        slot=slot,
        class_name=options.name,
        provider=options.provider,
        destination=destination,
        ordering=ordering_key(consumer.key_name, delivery, intent),
        on_dead=options.on_dead,
        body=wished.body,
        hash=body_hash(wished.body),
        traceparent=delivery.traceparent,
        tracestate=delivery.tracestate,
        seq=delivery.seq,
    )


def ordering_key(consumer: str, delivery: Delivery, intent: Intent) -> str | None:
    """What is sent one at a time and in order: by default the intents of one aggregate for one provider."""
    options = options_of(intent)
    if options.order_by is None:
        return None
    scope = delivery.aggregate if options.order_by is AGGREGATE else getattr(intent, options.order_by)
    if scope is None:
        return None
    return intent_ordering(consumer, options.provider, str(scope))

"""When intents are to be sent: what handlers may say of it, and what is refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest

from projectionist.core.errors import DefinitionError
from projectionist.outbox import Cancel, Intent, Scheduled, Slotted
from projectionist.outbox.intents.intent import EmittedIntent, IntentMeta
from projectionist.outbox.intents.keys import body_hash, cancel_key, intent_key
from projectionist.outbox.intents.schedule import Emitted, EmittedCancel
from projectionist.projections import Envelope
from projectionist.projections.reactor_answers import answer_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PLACE = Envelope(
    source="shop",
    id="e1",
    type="order.placed",
    aggregate_type="order",
    aggregate_id="1",
    version=3,
    time=NOON,
)


class Reminder(Intent, provider="email"):
    to: str = "ann"


def asked(answer: object, place: Envelope = PLACE, *, ordered: bool = True) -> list[Emitted]:
    """What a handler's answer asks for."""
    return answer_of(answer, lambda: place, ordered=ordered).intents


def without(**changes: Any) -> Envelope:
    """The envelope of an event that lacks something."""
    return Envelope(**{name: getattr(PLACE, name) for name in PLACE.__struct_fields__} | changes)


def test_after_counts_from_the_events_time_and_at_is_kept_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))
    assert asked(
        [Reminder().after(DAY), Reminder("bob").slot("b").at(there), Reminder().at(NOON).slot("c")]
    ) == [
        EmittedIntent("Reminder", Reminder(), b'{"to":"ann"}', NOON + DAY),
        EmittedIntent("b", Reminder("bob"), b'{"to":"bob"}', NOON),
        EmittedIntent("c", Reminder(), b'{"to":"ann"}', NOON),
    ]


def test_slot_and_moment_may_be_named_in_either_order() -> None:
    assert Reminder().slot("b").after(DAY) == Reminder().after(DAY).slot("b")
    assert Reminder().after(DAY).slot("b") == Scheduled(Slotted("b", Reminder()), DAY)


def test_a_cancel_beside_a_new_one_is_a_reschedule() -> None:
    assert asked([Cancel(Reminder), Reminder().after(DAY)])[0] == EmittedCancel("Reminder", Reminder)
    assert asked(Cancel(Reminder, slot="b")) == [EmittedCancel("b", Reminder)]


def test_two_in_one_slot_are_refused_whenever_they_are_to_be_sent() -> None:
    with pytest.raises(TypeError, match="two intents in slot 'Reminder'"):
        asked([Reminder(), Reminder().after(DAY)])
    with pytest.raises(TypeError, match="twice in slot 'Reminder'"):
        asked([Cancel(Reminder), Cancel(Reminder)])


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda: Reminder().at(NOON.replace(tzinfo=None)), "without a time zone"),
        (lambda: Reminder().after(-DAY), "from zero to ten years"),
        (lambda: Reminder().after(3654 * DAY), "from zero to ten years"),
        (lambda: asked(Reminder().at(NOON + 3654 * DAY)), "more than ten years after its event"),
        (lambda: asked(Reminder().after(DAY), without(time=None)), "says no time"),
        *(
            (lambda moment=moment: asked(Reminder().at(moment), without(time=None)), "outside the years")
            for moment in (
                datetime.max.replace(tzinfo=UTC),
                datetime(9990, 1, 1, tzinfo=UTC),
                datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
                datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
            )
        ),
        (
            lambda: asked(Reminder().after(3653 * DAY), without(time=datetime.max.replace(tzinfo=UTC))),
            "outside the years",
        ),
    ],
)
def test_a_moment_that_is_none_is_refused(write: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write()


@pytest.mark.parametrize(
    "write",
    [
        lambda: Cancel(cast("type[Intent]", "Reminder")),
        lambda: Cancel(cast("type[Intent]", Reminder())),
        lambda: Cancel(Intent),
        lambda: asked(Cancel(Reminder), ordered=False),
        lambda: asked(Cancel(Reminder), without(aggregate_id=None)),
        lambda: asked(Cancel(Reminder), without(version=None)),
    ],
)
def test_a_cancel_without_a_class_an_aggregate_or_an_order_is_refused(write: Any) -> None:
    with pytest.raises(TypeError, match="Cancel"):
        write()


def test_a_class_says_what_becomes_of_it_when_it_is_late() -> None:
    for options in ({"expires": -DAY}, {"expires": 3654 * DAY}, {"when_behind": "later"}):
        with pytest.raises(DefinitionError):
            IntentMeta("Odd", (Intent,), {"__annotations__": {}}, provider="email", **options)
    for name in ("at", "after"):
        with pytest.raises(DefinitionError, match=f"a field named {name}"):
            IntentMeta("Odd", (Intent,), {"__annotations__": {name: str}}, provider="email")


def test_the_moment_is_content_and_no_part_of_the_key() -> None:
    assert (
        body_hash(b"{}") != body_hash(b"{}", NOON.isoformat()) != body_hash(b"{}", (NOON + DAY).isoformat())
    )
    keys = {
        intent_key("Shop", "shop", "e1", "Reminder"),
        cancel_key("Shop", "shop", "e1", "Reminder", "Reminder"),
        cancel_key("Shop", "shop", "e1", "Reminder", "b"),
        cancel_key("Shop", "shop", "e1", "Notice", "Reminder"),
    }
    assert len(keys) == 4


def test_a_generator_is_asked_once() -> None:
    def answer() -> Iterator[Cancel | Scheduled]:
        yield Cancel(Reminder)
        yield Reminder().at(NOON)

    assert [one.counted for one in asked(answer())] == ["Cancel(Reminder)", "Reminder"]

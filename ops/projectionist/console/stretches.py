"""Tells what became of an event, as stretches of time: its passages, their intents, the replies of providers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec

from projectionist.console.needs import Condition, consumer_path
from projectionist.core.states import InboxState, IntentState
from projectionist.outbox.admin.intent_actions import FOR_A_PERSON
from projectionist.runner.admin.event_history import Journey, Passage, SideRecord

GOES_ON = ("wait", "busy")
"""The tones of what comes to an end by itself."""
ATTEMPT = 3
"""The depth of an attempt, of which nothing follows: its intent says how it is."""
UNDER_WAY = frozenset({IntentState.LEASED, IntentState.STARTED})
TAKEN_BACK = frozenset({IntentState.DISCARDED, IntentState.CANCELLED})


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what took a while: an event, its passage through a consumer, an intent, an attempt."""

    depth: int
    """Of what it is a part: of nothing, an event, a passage, an intent."""
    name: str
    href: str = ""
    who: str = ""
    tone: str
    state: str
    began: datetime
    ended: datetime | None
    """None: it has not ended."""
    answer: str = ""
    mend: str = ""
    """The page that helps, where somebody must act."""


def stretches(journey: Journey) -> list[Stretch]:
    """Return what became of an event: itself first, then its parts; nothing where no time is on record."""
    parts = [one for passage in journey.consumers for one in _of_consumer(journey, passage)]
    if not parts:
        return []
    ended = [one.ended for one in parts if one.ended is not None]
    condition = _whole(parts)
    event = Stretch(
        depth=0,
        name=journey.type or "event",
        href=f"/journey?{urlencode({'id': journey.id, 'source': journey.source})}",
        who=journey.source,
        tone=condition.tone,
        state=condition.word,
        began=min(one.began for one in parts),
        ended=max(ended) if len(ended) == len(parts) else None,
        answer=_placed(journey),
    )
    return [event, *parts]


def _placed(journey: Journey) -> str:
    place = next((f"{one.stream} {one.seq:,}" for one in journey.consumers if one.seq is not None), "")
    told = (
        f"stored as {place}" if place else "",
        f"caused by {journey.causation}" if journey.causation else "",
    )
    return ", ".join(filter(None, told))


def _whole(parts: Sequence[Stretch]) -> Condition:
    tones = {one.tone for one in parts if one.depth < ATTEMPT}
    if "act" in tones:
        return Condition("act", "waits")
    return Condition("wait", "goes on") if tones & {*GOES_ON} else Condition("ok", "settled")


def _of_consumer(journey: Journey, one: Passage) -> Iterator[Stretch]:
    if one.received is not None:
        yield _passage(journey, one, one.received)
    else:
        aside = [each for each in one.beside if each.kind == "quarantine"]
        if aside:
            yield _quarantined(one, aside[-1])
    for intent in one.intents:
        yield _intent(one, intent)
        yield from _attempts(intent)


def _passage(journey: Journey, one: Passage, received: datetime) -> Stretch:
    waits = one.state == InboxState.PARKED
    shared = {"consumer": one.consumer, "source": journey.source, "id": journey.id}
    parked = one.parked or {}
    told = [*one.rows, *(["its handler's condition did not hold"] if one.idle else [])]
    if parked:
        told = [f"{parked['why']}, {counted(parked['attempts'], 'attempt')}"]
    return Stretch(
        depth=1,
        name=one.consumer,
        href=consumer_path(one.consumer),
        who=f"{one.host}:{one.pid}" if one.host else "",
        tone=_tone(one),
        state=one.state,
        began=received,
        ended=None if waits else one.processed,
        answer=", ".join(told),
        mend=f"/waiting/event?{urlencode(shared)}" if parked else "",
    )


def _tone(one: Passage) -> str:
    if one.state == InboxState.PARKED:
        if one.parked is not None and one.parked["discarded"]:
            return "idle"
        return "act" if one.parked is not None and one.parked["waits"] else "wait"
    if one.state == InboxState.QUARANTINED:
        return "act"
    return "ok" if one.state == InboxState.APPLIED and not one.idle else "idle"


def _quarantined(one: Passage, entry: SideRecord) -> Stretch:
    state = (entry.what or "").partition(":")[0]
    waits = state == InboxState.QUARANTINED
    shared = {"consumer": one.consumer, "seq": entry.seq, "incarnation": entry.incarnation}
    return Stretch(
        depth=1,
        name=one.consumer,
        href=consumer_path(one.consumer),
        tone="act" if waits else "idle",
        state=state,
        began=entry.at,
        ended=None if waits else entry.at,
        answer=(entry.what or "").partition(": ")[2],
        mend=f"/quarantine/entry?{urlencode(shared)}" if waits else "",
    )


def _intent(one: Passage, intent: Mapping[str, Any]) -> Stretch:
    state: str = intent["state"]
    path = f"/outbox/intent?{urlencode({'key': intent['key']})}"
    row = "" if intent["scope"] is None else f" of row {intent['scope']}"
    told = (_scheduled(intent), intent["error"] or "")
    return Stretch(
        depth=2,
        name=f"{intent['slot']}{row}",
        href=path,
        who=intent["provider"],
        tone=_intent_tone(state),
        state=state,
        began=intent["created"],
        ended=intent["settled"],
        answer=", ".join(filter(None, told)),
        mend=path if state in FOR_A_PERSON else "",
    )


def _scheduled(intent: Mapping[str, Any]) -> str:
    """Return when an intent was to be sent, and what it waits for or who has taken it back."""
    if intent["scheduled"] is None:
        return ""
    text = f"scheduled for {intent['scheduled'].astimezone(UTC):%-d %B %Y, %H:%M:%S} UTC"
    if intent["cancelled_by"] is not None:
        return f"{text}, taken back by event {intent['cancelled_by']}"
    return text if intent["waits_for"] is None else f"{text}, waits for: {intent['waits_for']}"


def _intent_tone(state: str) -> str:
    if state == IntentState.SENT:
        return "ok"
    if state in FOR_A_PERSON:
        return "act"
    if state in TAKEN_BACK:
        return "idle"
    return "busy" if state in UNDER_WAY else "wait"


def _attempts(intent: Mapping[str, Any]) -> Iterator[Stretch]:
    for each in intent.get("attempts", ()):
        if each["started"] is not None:
            sent, took = each["outcome"] == IntentState.SENT, each["took_s"]
            told = (each["status"], each["reason"], each["provider_id"])
            yield Stretch(
                depth=ATTEMPT,
                name=f"attempt {each['attempt']}",
                who=each["relay"] or "",
                tone="ok" if sent else "wait" if intent["state"] not in FOR_A_PERSON else "idle",
                state=(each["outcome"] or "no answer yet").replace("_", " "),
                began=each["started"],
                ended=None if took is None else each["started"] + timedelta(seconds=took),
                answer=" ".join(str(one) for one in told if one),
            )


def counted(n: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"

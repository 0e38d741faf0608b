"""What became of an event is told as stretches of time that fit on one scale, and says whether somebody must act."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.console.charts import APART, TICKS, TimeScale
from projectionist.console.stretches import Stretch, stretches
from projectionist.console.waterfall import PageAnswer, answer, elapsed, waterfall
from projectionist.core.states import InboxState, IntentState
from projectionist.runner.admin.event_history import GONE, Journey, Passage, SideRecord

CAME = datetime(2026, 3, 12, 14, 20, tzinfo=UTC)
NOW = CAME + timedelta(seconds=60)
TIMES = st.floats(0, 1e9)


def after(seconds: float) -> datetime:
    return CAME + timedelta(seconds=seconds)


def passage(consumer: str = "Orders", state: str = "applied", took_s: float = 0.014, **given: Any) -> Passage:
    return Passage(
        consumer=consumer,
        state=state,
        received=CAME,
        processed=after(took_s),
        stream="SHOP",
        seq=4711,
        **given,
    )


def intent(state: str = "sent", settled: datetime | None = None, **given: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "key": "k",
        "slot": "Receipt",
        "scope": None,
        "provider": "email",
        "state": state,
        "error": None,
    }
    known |= {"created": after(0.014), "settled": settled, "scheduled": None, "attempts": []}
    return known | given


def attempt(number: int, outcome: str, began_s: float, took_s: float | None, **given: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "attempt": number,
        "relay": "relay-1",
        "started": after(began_s),
        "took_s": took_s,
    }
    return known | {"outcome": outcome, "status": None, "reason": None, "provider_id": None} | given


def journey(*passages: Passage) -> Journey:
    return Journey(source="shop", id="e-1", type="order.paid", consumers=list(passages))


def parked(**given: Any) -> dict[str, Any]:
    return {"why": "ValueError [a1e0]", "attempts": 2, "waits": True, "discarded": False} | given


@given(longest=TIMES, began=st.floats(0, 1), ended=st.floats(0, 1))
def test_a_bar_stays_inside_of_its_picture_and_can_be_seen(
    longest: float, began: float, ended: float
) -> None:
    first, last = sorted((began * longest, ended * longest))
    drawn = str(TimeScale(longest).bar(first, last, "", ""))
    [(left, width)] = re.findall(r'<rect class="" x="([\d.]+)%" y="4" width="([\d.]+)%"', drawn)
    assert float(left) >= 0
    assert float(width) >= 0.6
    assert float(left) + float(width) <= 100.02


@given(longest=TIMES)
def test_ticks_lie_apart_and_in_order(longest: float) -> None:
    drawn = str(TimeScale(longest).ticks("end"))
    places = [float(one) for one in re.findall(r'<text x="([\d.]+)%"', drawn)]
    assert (places[0], places[-1]) == (0, 100)
    assert all(later - earlier >= APART - 0.1 for earlier, later in pairwise(places))


def test_ticks_name_powers_of_ten() -> None:
    drawn = str(TimeScale(100.0).ticks("1 min"))
    assert re.findall(r">([^<]+)</text>", drawn) == ["0", "10 ms", "100 ms", "1 s", "10 s", "1 min"]
    assert [after_s for after_s, _ in TICKS] == sorted(after_s for after_s, _ in TICKS)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        *((-1, "0 ms"), (0, "0 ms"), (0.0144, "14 ms"), (0.9996, "1.0 s"), (5.52, "5.5 s")),
        *((59.96, "1 min"), (720, "12 min")),
    ],
)
def test_a_short_time_is_told_to_the_millisecond(seconds: float, told: str) -> None:
    assert elapsed(seconds) == told


def test_an_event_its_passages_intents_and_attempts_are_told_in_this_order() -> None:
    tries = [
        attempt(1, "retry", 0.03, 0.23, status="503", reason="busy"),
        attempt(2, "sent", 5.3, 0.22, status="200"),
    ]
    sent = intent(settled=after(5.52), attempts=tries, scope='["a",1]')
    found = stretches(
        journey(
            passage(host="app", pid=7, rows=["public.orders o1"], intents=[sent]), passage("Spend", "ignored")
        )
    )
    assert [(one.depth, one.name, one.who, one.tone, one.state, one.answer) for one in found] == [
        (0, "order.paid", "shop", "ok", "settled", "stored as SHOP 4,711"),
        (1, "Orders", "app:7", "ok", "applied", "public.orders o1"),
        (2, 'Receipt of row ["a",1]', "email", "ok", "sent", ""),
        (3, "attempt 1", "relay-1", "wait", "retry", "503 busy"),
        (3, "attempt 2", "relay-1", "ok", "sent", "200"),
        (1, "Spend", "", "idle", "ignored", ""),
    ]
    drawn = waterfall(found, NOW)
    assert drawn is not None
    assert [(line.after, line.took) for line in drawn.lines] == [
        *(("0 ms", "5.5 s"), ("0 ms", "14 ms"), ("14 ms", "5.5 s"), ("30 ms", "230 ms"), ("5.3 s", "220 ms")),
        ("0 ms", "14 ms"),
    ]
    assert 'aria-label="from 30 ms, took 230 ms"' in drawn.lines[3].picture
    assert answer(found, NOW) == PageAnswer(
        "ok",
        "Nobody has to act.",
        '2 consumers have settled it, 1 intent is sent. What took longest is Receipt of row ["a",1]: 5.5 s.',
    )


@pytest.mark.parametrize(
    ("one", "tone", "state", "mend"),
    [
        (passage(state="parked", parked=parked()), "act", "parked", "/waiting/event?"),
        (passage(state="parked", parked=parked(waits=False)), "wait", "parked", "/waiting/event?"),
        (passage(state="parked", parked=parked(discarded=True)), "idle", "parked", "/waiting/event?"),
        (passage(state="parked"), "wait", "parked", ""),
        (passage(idle=True), "idle", "applied", ""),
        (passage(state="skipped"), "idle", "skipped", ""),
    ],
)
def test_a_passage_says_whether_it_waits_and_for_whom(one: Passage, tone: str, state: str, mend: str) -> None:
    event, told = stretches(journey(one))
    assert (told.tone, told.state) == (tone, state)
    assert told.mend.startswith(mend)
    assert bool(told.mend) == bool(mend)
    assert (told.ended is None) == (one.state == InboxState.PARKED)
    assert event.ended == told.ended


@pytest.mark.parametrize("state", IntentState)
def test_each_state_of_an_intent_has_a_mark(state: IntentState) -> None:
    _, _, told = stretches(journey(passage(intents=[intent(state)])))
    waits = {IntentState.DEAD, IntentState.RECONCILE, IntentState.HELD}
    assert (told.tone == "act") == (state in waits) == bool(told.mend)
    assert (told.tone == "ok") == (state is IntentState.SENT)
    assert (told.tone == "idle") == (state in (IntentState.DISCARDED, IntentState.CANCELLED))


def test_what_stands_in_quarantine_waits_and_what_was_released_does_not() -> None:
    def entry(what: str) -> Passage:
        aside = SideRecord("quarantine", CAME, 1, 9, what, None, None)
        return Passage(consumer="Orders", state="quarantined", beside=[aside])

    _, stands = stretches(journey(entry("quarantined: version")))
    assert (stands.tone, stands.state, stands.answer) == ("act", "quarantined", "version")
    assert stands.mend == "/quarantine/entry?consumer=Orders&seq=9&incarnation=1"
    _, released = stretches(journey(entry("released: version")))
    assert (released.tone, released.state, released.mend) == ("idle", "released", "")


def test_what_is_scheduled_says_for_when_and_what_came_of_it() -> None:
    due: dict[str, Any] = {
        "scheduled": after(86400),
        "waits_for": "the consumer to catch up",
        "cancelled_by": None,
    }
    for more, told in (
        ({}, ", waits for: the consumer to catch up"),
        ({"cancelled_by": "e-2"}, ", taken back by event e-2"),
        ({"waits_for": None}, ""),
    ):
        *_, one = stretches(journey(passage(intents=[intent("scheduled", **due | more)])))
        assert one.answer == f"scheduled for 13 March 2026, 14:20:00 UTC{told}"


def test_what_has_not_ended_is_drawn_up_to_now_and_never_before_it_began() -> None:
    found = stretches(journey(passage(state="parked", parked=parked())))
    drawn = waterfall(found, NOW)
    assert drawn is not None
    assert {line.took for line in drawn.lines} == {"1 min so far"}
    assert 'aria-label="from 0 ms, has not ended"' in drawn.lines[1].picture
    early = waterfall(found, CAME - timedelta(hours=1))
    assert early is not None
    assert {line.took for line in early.lines} == {"0 ms so far"}


def test_the_answer_names_what_waits_then_what_goes_on() -> None:
    waits = [passage(f"C{n}", "parked", parked=parked()) for n in range(5)]
    goes = passage("Mailer", intents=[intent("ready")])
    assert answer(stretches(journey(*waits, goes)), NOW) == PageAnswer(
        "act", "Somebody must act.", "C0: parked; C1: parked; C2: parked; 2 more."
    )
    assert answer(stretches(journey(passage(), goes)), NOW) == PageAnswer(
        "wait", "It goes on by itself.", "Receipt: ready."
    )


def test_of_what_no_time_is_left_nothing_is_drawn() -> None:
    left: list[Stretch] = stretches(journey(Passage(consumer="Orders", note=GONE)))
    assert left == []
    assert waterfall(left, NOW) is None
    assert answer(left, NOW).tone == "idle"

"""Every row of the relay's table of states: what a reply makes of an intent."""

from __future__ import annotations

import msgspec
import pytest

from projectionist.core.states import IncidentKind, IntentState
from projectionist.outbox.providers import Outcome, Reply
from projectionist.outbox.providers.profiles import (
    NATS,
    NONE,
    STANDARD_WEBHOOKS,
    STRIPE_V1,
    Delivery,
    Profile,
    UnknownPolicy,
)
from projectionist.outbox.providers.settings import ProviderRetry
from projectionist.outbox.relay.state_machine import (
    LOOKUPS,
    AttemptState,
    ReplyRules,
    Transition,
    after_lookup,
    after_no_reply,
    after_reply,
    may_send,
    resolve_unknown,
)

DAY = 86_400.0
POLICY = ProviderRetry(initial_s=1, coefficient=2, maximum_s=60, attempts=3)
SURE_UNTIL = 0.8 * DAY


def rules(profile: Profile = STRIPE_V1, delivery: Delivery = "once", **retry: object) -> ReplyRules:
    return ReplyRules(profile, delivery, msgspec.structs.replace(POLICY, **retry))


def standing(
    spent: int = 1,
    since: float | None = 1.0,
    *,
    fresh: bool = False,
    blocks: bool = False,
    doubted: bool = False,
) -> AttemptState:
    return AttemptState(spent, since, fresh, blocks, doubted)


def reply(outcome: Outcome, **fields: object) -> Reply:
    return Reply(outcome=outcome, **fields)  # type: ignore[arg-type] # the table below names its fields


def judged(
    outcome: Outcome, stand: AttemptState | None = None, rule: ReplyRules | None = None, **fields: object
) -> Transition:
    return after_reply(reply(outcome, **fields), stand or standing(), rule or rules(), 0.5)


def test_sent_is_the_end() -> None:
    assert judged(Outcome.SENT) == Transition(state=IntentState.SENT, open=False, spent=1)


def test_a_replay_of_an_earlier_success_is_sent_too() -> None:
    assert judged(Outcome.SENT, replayed=True).state is IntentState.SENT


def test_certainly_not_sent_counts_neither_the_attempt_nor_the_memory() -> None:
    first = judged(Outcome.NOT_SENT, standing(1, None, fresh=True))
    assert first == Transition(state=IntentState.READY, open=True, spent=0, wait_s=0.5, forget=True)
    later = judged(Outcome.NOT_SENT, standing(2, 10.0))
    assert later == Transition(state=IntentState.READY, open=True, spent=1, wait_s=0.5, forget=False)


def test_certainly_not_sent_is_tried_for_ever() -> None:
    assert judged(Outcome.NOT_SENT, standing(1000)).state is IntentState.READY


def test_retry_waits_longer_each_time_and_ends_dead() -> None:
    assert judged(Outcome.RETRY, standing(1)).wait_s == 0.5
    assert judged(Outcome.RETRY, standing(2)).wait_s == 1.0
    last = judged(Outcome.RETRY, standing(3))
    assert (last.state, last.open, last.note) == (IntentState.DEAD, False, "no tries are left")


@pytest.mark.parametrize(("asked", "least", "most"), [(10.0, 10.0, 11.0), (0.0, 1.0, 2.0), (1e9, 60.0, 60.0)])
def test_retry_after_is_a_floor_clamped_to_the_policy(asked: float, least: float, most: float) -> None:
    wait = judged(Outcome.RETRY, after_s=asked).wait_s
    assert wait is not None
    assert least <= wait <= most


def test_retry_ends_with_the_schedule() -> None:
    assert (
        judged(Outcome.RETRY, standing(1, 100.0), rules(schedule_to_close_s=99.0)).state is IntentState.DEAD
    )


def test_in_flight_elsewhere_waits_for_the_lock_and_counts_no_attempt() -> None:
    step = judged(Outcome.IN_FLIGHT, standing(2))
    assert step == Transition(state=IntentState.READY, open=True, spent=1, wait_s=STRIPE_V1.lock_s)
    assert judged(Outcome.IN_FLIGHT, after_s=1e9).wait_s == POLICY.maximum_s


def test_a_sticky_failure_waits_for_a_person() -> None:
    assert judged(Outcome.STICKY) == Transition(state=IntentState.RECONCILE, open=True, spent=1)


def test_refused_is_dead_and_blocks_its_lane_only_if_its_class_says_so() -> None:
    assert judged(Outcome.REFUSED) == Transition(state=IntentState.DEAD, open=False, spent=1)
    assert judged(Outcome.REFUSED, standing(blocks=True)).open


@pytest.mark.parametrize(
    ("profile", "delivery", "since", "status", "state"),
    [
        (STRIPE_V1, "once", 1.0, "", IntentState.RECONCILE),
        (STRIPE_V1, "once", 1.0, "402", IntentState.DEAD),
        (STRIPE_V1, "once", SURE_UNTIL, "402", IntentState.RECONCILE),
        (NONE, "at-least-once", 1.0, "", IntentState.RECONCILE),
        (NONE, "at-least-once", 1.0, "550", IntentState.RECONCILE),
        (NATS, "once", 1.0, "", IntentState.RECONCILE),
        (NATS, "once", 96.0, "", IntentState.UNKNOWN),
    ],
)
def test_what_may_have_been_done_is_not_dead_because_a_later_attempt_is_refused(
    profile: Profile, delivery: Delivery, since: float, status: str, state: IntentState
) -> None:
    """Unless the refusal is the word of a provider that still remembers the key."""
    stand = standing(2, since, doubted=True)
    step = judged(Outcome.REFUSED, stand, rules(profile, delivery), status=status)
    assert step.state is state
    assert step.open is (state is not IntentState.DEAD)


def test_what_may_have_been_done_is_not_dead_because_no_tries_are_left() -> None:
    step = judged(Outcome.RETRY, standing(3, doubted=True), status="503")
    assert (step.state, step.open) == (IntentState.RECONCILE, True)


def test_mismatch_is_dead_and_an_incident() -> None:
    assert judged(Outcome.MISMATCH) == Transition(
        state=IntentState.DEAD, open=False, spent=1, fact=IncidentKind.INTENT_MISMATCH
    )


def test_a_destination_that_wants_nothing_more_holds_the_intent() -> None:
    gone = judged(Outcome.REFUSED, hold=True)
    assert (gone.state, gone.open, gone.spent) == (IntentState.HELD, True, 0)
    unset = judged(Outcome.NOT_SENT, standing(1, None, fresh=True), hold=True)
    assert (unset.state, unset.forget) == (IntentState.HELD, True)


@pytest.mark.parametrize(
    ("profile", "delivery", "since", "spent", "state"),
    [
        (STRIPE_V1, "once", 1.0, 1, IntentState.READY),
        (STRIPE_V1, "once", SURE_UNTIL - 1, 1, IntentState.READY),
        (STRIPE_V1, "once", SURE_UNTIL, 1, IntentState.RECONCILE),
        (STRIPE_V1, "once", 1.0, 3, IntentState.RECONCILE),
        (STRIPE_V1, "at-least-once", SURE_UNTIL, 1, IntentState.RECONCILE),
        (NATS, "once", 95.0, 1, IntentState.READY),
        (NATS, "once", 96.0, 1, IntentState.UNKNOWN),
        (NATS, "once", 1.0, 3, IntentState.UNKNOWN),
        (NONE, "once", 0.0, 1, IntentState.RECONCILE),
        (NONE, "at-least-once", 1.0, 1, IntentState.READY),
        (NONE, "at-least-once", 1.0, 3, IntentState.RECONCILE),
    ],
)
def test_an_unknown_outcome_is_tried_again_looked_up_or_left_to_a_person(
    profile: Profile, delivery: Delivery, since: float, spent: int, state: IntentState
) -> None:
    stand = standing(spent, since)
    assert judged(Outcome.UNKNOWN, stand, rules(profile, delivery)).state is state
    assert after_no_reply(stand, rules(profile, delivery), 0.5).state is state


def test_unknown_is_never_dead_since_it_may_have_been_done() -> None:
    for profile in (STRIPE_V1, NATS, NONE, STANDARD_WEBHOOKS):
        for spent in (1, 3, 100):
            for since in (0.0, 10 * DAY):
                step = after_no_reply(standing(spent, since), rules(profile), 0.5)
                assert step.state in {IntentState.READY, IntentState.UNKNOWN, IntentState.RECONCILE}
                assert step.open


@pytest.mark.parametrize(
    ("profile", "since", "what"),
    [
        (STRIPE_V1, None, UnknownPolicy.AGAIN),
        (STRIPE_V1, SURE_UNTIL - 1, UnknownPolicy.AGAIN),
        (STRIPE_V1, SURE_UNTIL, UnknownPolicy.RECONCILE),
        (NATS, 96.0, UnknownPolicy.LOOKUP),
        (NONE, 10 * DAY, UnknownPolicy.AGAIN),
    ],
)
def test_nothing_begins_after_the_provider_may_have_forgotten(
    profile: Profile, since: float | None, what: UnknownPolicy
) -> None:
    assert may_send(standing(1, since), rules(profile)) is what


def test_a_lookup_ends_in_sent_in_another_try_or_with_a_person() -> None:
    stand = standing(3, 100.0)
    found = after_lookup(reply(Outcome.SENT, replayed=True), stand, rules(NATS), 0.5)
    absent = after_lookup(reply(Outcome.NOT_SENT), stand, rules(NATS), 0.5)
    unclear = after_lookup(reply(Outcome.UNKNOWN), stand, rules(NATS), 0.5)
    assert found.state is IntentState.SENT
    assert absent == Transition(state=IntentState.READY, open=True, spent=3, wait_s=0.0, forget=True)
    assert unclear.state is IntentState.RECONCILE


def test_a_lookup_that_cannot_be_made_is_made_later_but_not_for_ever() -> None:
    later = after_lookup(reply(Outcome.RETRY), standing(3, 100.0), rules(NATS), 0.5)
    assert (later.state, later.spent) == (IntentState.UNKNOWN, 4)
    assert resolve_unknown(standing(later.spent, 100.0), rules(NATS)) is UnknownPolicy.LOOKUP
    last = after_lookup(reply(Outcome.RETRY), standing(3 + LOOKUPS, 100.0), rules(NATS), 0.5)
    assert last.state is IntentState.RECONCILE


def test_what_goes_on_stays_open_and_a_lookup_is_made_at_once() -> None:
    again = judged(Outcome.RETRY)
    assert (again.state, again.open) == (IntentState.READY, True)
    lookup = after_no_reply(standing(1, 96.0), rules(NATS), 0.5)
    assert (lookup.state, lookup.open, lookup.wait_s) == (IntentState.UNKNOWN, True, 0.0)
    doubted = judged(Outcome.REFUSED, standing(2, 96.0, doubted=True), rules(NATS))
    assert (doubted.state, doubted.wait_s) == (IntentState.UNKNOWN, 0.0)


def test_a_lookup_that_found_it_ends_it_and_one_not_made_leaves_it_open() -> None:
    found = after_lookup(reply(Outcome.SENT), standing(3, 100.0), rules(NATS), 0.5)
    later = after_lookup(reply(Outcome.RETRY), standing(3, 100.0), rules(NATS), 0.5)
    assert (found.open, later.open) == (False, True)


@pytest.mark.parametrize(
    ("since", "state"), [(None, IntentState.READY), (98.0, IntentState.READY), (99.0, IntentState.DEAD)]
)
def test_the_schedule_begins_with_the_first_byte_and_ends_on_time(
    since: float | None, state: IntentState
) -> None:
    assert judged(Outcome.RETRY, standing(1, since), rules(schedule_to_close_s=99.0)).state is state


def test_what_has_not_left_yet_has_all_the_time_of_the_providers_memory() -> None:
    short = msgspec.structs.replace(STRIPE_V1, memory_s=1.0)
    assert resolve_unknown(standing(1, None), rules(short)) is UnknownPolicy.AGAIN
    refused = judged(Outcome.REFUSED, standing(2, None, doubted=True), rules(short), status="402")
    assert refused.state is IntentState.DEAD
    assert judged(Outcome.RETRY, standing(1, None), rules(schedule_to_close_s=0.5)).state is IntentState.READY


def test_no_attempt_is_in_doubt_unless_that_is_said() -> None:
    assert not AttemptState(1, None, fresh=False, blocks=False).doubted

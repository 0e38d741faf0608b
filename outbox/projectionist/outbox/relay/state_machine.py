"""Decides the next state of an intent: reply, profile, policy and time in, a transition out. Pure."""

from __future__ import annotations

from typing import assert_never

import msgspec

from projectionist.core import retry_policy
from projectionist.core.states import IncidentKind, IntentState
from projectionist.outbox.providers.profiles import Delivery, Profile, UnknownPolicy, horizon, recourse
from projectionist.outbox.providers.reply import Outcome, Reply
from projectionist.outbox.providers.settings import ProviderRetry


class ReplyRules(msgspec.Struct, frozen=True):
    """A provider's promises, and its settings."""

    profile: Profile
    delivery: Delivery
    retry: ProviderRetry


class AttemptState(msgspec.Struct, frozen=True):
    """The state of an intent as far as decisions depend on it.

    `spent`: attempts that count, this one included. `since_first_s`: time since bytes may have left for the
    first time, None if they never did. `fresh`: this is the attempt that started that clock. `blocks`: its
    class says that a dead one holds its lane. `doubted`: the outcome of an earlier attempt is still unknown.
    """

    spent: int
    since_first_s: float | None
    fresh: bool
    blocks: bool
    doubted: bool = False


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """The next state, as it is written. `wait_s`: seconds until it is due; `forget`: the memory clock has not started
    after all; `note`: stored beside the reply's own reason."""

    state: IntentState
    open: bool
    spent: int
    wait_s: float | None = None
    forget: bool = False
    fact: IncidentKind | None = None
    note: str = ""


def may_send(standing: AttemptState, rules: ReplyRules) -> UnknownPolicy:
    """Decide whether a leased intent may be sent: AGAIN is to send it, for the first time or once more.

    No intent that may have reached the provider is sent again once the provider may have forgotten the key.
    """
    limit = horizon(rules.profile)
    since = standing.since_first_s
    if since is None or limit is None or since < limit:
        return UnknownPolicy.AGAIN
    return UnknownPolicy.LOOKUP if rules.profile.lookup else UnknownPolicy.RECONCILE


def resolve_unknown(standing: AttemptState, rules: ReplyRules) -> UnknownPolicy:
    """Decide how to resolve an intent that may have been executed."""
    since = standing.since_first_s or 0.0
    found = recourse(rules.profile, rules.delivery, since)
    if found is UnknownPolicy.AGAIN and not _tries_left(standing, rules.retry):
        return UnknownPolicy.LOOKUP if rules.profile.lookup else UnknownPolicy.RECONCILE
    return found


def after_reply(reply: Reply, standing: AttemptState, rules: ReplyRules, chance: float) -> Transition:
    """Return the next state after an attempt. `chance`: a random number in [0, 1), for the jitter."""
    if reply.hold:
        return _held(reply, standing)
    match reply.outcome:
        case Outcome.SENT:
            return Transition(state=IntentState.SENT, open=False, spent=standing.spent)
        case Outcome.RETRY:
            return _retried(reply, standing, rules, chance)
        case Outcome.REFUSED:
            return _dead(standing) if _is_about_all(reply, standing, rules) else _doubtful(standing, rules)
        case Outcome.IN_FLIGHT:
            wait = _clamped(reply.after_s or rules.profile.lock_s, rules.retry)
            return Transition(state=IntentState.READY, open=True, spent=standing.spent - 1, wait_s=wait)
        case Outcome.MISMATCH:
            return msgspec.structs.replace(_dead(standing), fact=IncidentKind.INTENT_MISMATCH)
        case Outcome.STICKY:
            return _reconcile(standing)
        case Outcome.NOT_SENT:
            # An outage is paced by the circuit, not by each intent: intents caught in it go first afterwards.
            wait = retry_policy.wait(rules.retry, 1, chance=chance, asked_s=reply.after_s)
            return _untried(IntentState.READY, standing, wait)
        case Outcome.UNKNOWN:
            return after_no_reply(standing, rules, chance)
    assert_never(reply.outcome)


def after_no_reply(standing: AttemptState, rules: ReplyRules, chance: float) -> Transition:
    """Return the next state of an intent whose outcome is unknown: no reply came, or none was recorded."""
    match resolve_unknown(standing, rules):
        case UnknownPolicy.AGAIN:
            wait = retry_policy.wait(rules.retry, standing.spent, chance=chance)
            return Transition(state=IntentState.READY, open=True, spent=standing.spent, wait_s=wait)
        case UnknownPolicy.LOOKUP:
            return Transition(state=IntentState.UNKNOWN, open=True, spent=standing.spent, wait_s=0.0)
        case UnknownPolicy.RECONCILE:
            return _reconcile(standing)


def after_lookup(reply: Reply, standing: AttemptState, rules: ReplyRules, chance: float) -> Transition:
    """Return the next state after a lookup: found, surely absent, impossible now, or unclear."""
    match reply.outcome:
        case Outcome.SENT:
            return Transition(state=IntentState.SENT, open=False, spent=standing.spent)
        case Outcome.NOT_SENT:
            # The provider has nothing under this key, so its memory starts anew with the next attempt.
            return Transition(
                state=IntentState.READY, open=True, spent=standing.spent, wait_s=0.0, forget=True
            )
        case Outcome.RETRY if standing.spent < rules.retry.attempts + LOOKUPS:
            wait = retry_policy.wait(rules.retry, standing.spent, chance=chance, asked_s=reply.after_s)
            return Transition(state=IntentState.UNKNOWN, open=True, spent=standing.spent + 1, wait_s=wait)
        case _:
            return _reconcile(standing)


LOOKUPS = 20
"""So many lookups may fail to be made, beyond the attempts, before a person is asked."""


def _is_about_all(reply: Reply, standing: AttemptState, rules: ReplyRules) -> bool:
    """Return True where a refusal means that no attempt was executed: a refusal of our own does not, nor that of a
    provider without a memory of the key; one that remembers it would have repeated the reply to the first."""
    if not standing.doubted:
        return True
    limit = horizon(rules.profile)
    return bool(reply.status) and limit is not None and (standing.since_first_s or 0.0) < limit


def _doubtful(standing: AttemptState, rules: ReplyRules) -> Transition:
    """Try no more, and do not call it dead: an earlier attempt may have been executed."""
    if resolve_unknown(standing, rules) is UnknownPolicy.LOOKUP:
        return Transition(
            state=IntentState.UNKNOWN, open=True, spent=standing.spent, wait_s=0.0, note=DOUBTED
        )
    return msgspec.structs.replace(_reconcile(standing), note=DOUBTED)


DOUBTED = "an earlier attempt may have been executed"


def _retried(reply: Reply, standing: AttemptState, rules: ReplyRules, chance: float) -> Transition:
    policy = rules.retry
    if not _tries_left(standing, policy):
        if standing.doubted:
            return _doubtful(standing, rules)
        return msgspec.structs.replace(_dead(standing), note="no tries are left")
    wait = retry_policy.wait(policy, standing.spent, chance=chance, asked_s=reply.after_s)
    return Transition(state=IntentState.READY, open=True, spent=standing.spent, wait_s=wait)


def _tries_left(standing: AttemptState, policy: ProviderRetry) -> bool:
    closed = policy.schedule_to_close_s
    in_time = closed is None or (standing.since_first_s or 0.0) < closed
    return in_time and not retry_policy.exhausted(policy, standing.spent)


def _held(reply: Reply, standing: AttemptState) -> Transition:
    if reply.outcome is Outcome.NOT_SENT:
        return _untried(IntentState.HELD, standing, None)
    return Transition(state=IntentState.HELD, open=True, spent=standing.spent - 1)


def _untried(state: IntentState, standing: AttemptState, wait_s: float | None) -> Transition:
    """Count neither the attempt nor its time: certainly no byte left."""
    return Transition(state=state, open=True, spent=standing.spent - 1, wait_s=wait_s, forget=standing.fresh)


def _dead(standing: AttemptState) -> Transition:
    return Transition(state=IntentState.DEAD, open=standing.blocks, spent=standing.spent)


def _reconcile(standing: AttemptState) -> Transition:
    return Transition(state=IntentState.RECONCILE, open=True, spent=standing.spent)


def _clamped(seconds: float, policy: ProviderRetry) -> float:
    return min(max(seconds, policy.initial_s), policy.maximum_s)

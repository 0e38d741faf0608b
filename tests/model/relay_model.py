"""M5, the relay: who leases, starts, sends, settles and looks up, with deaths, sleep, failovers and lost answers.

What a reply makes of an intent is decided by the code that ships (`state_machine`); what is modelled is the row that
two relays share, the provider with its memory, and time, which passes in ticks and is kept as ages. One step is one
statement or one message. Each rule of RULES can be taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec
from tests.model.explorer import Model, put
from tests.model.relay_world import Faults, Relay, Row, World

from projectionist.core.states import IntentState
from projectionist.outbox.providers import Outcome, Reply
from projectionist.outbox.providers.profiles import NATS, NONE, STRIPE_V1, Profile, UnknownPolicy, horizon
from projectionist.outbox.providers.settings import ProviderRetry
from projectionist.outbox.relay import state_machine
from projectionist.outbox.relay.state_machine import AttemptState, ReplyRules, Transition

RULES = {
    "start first": "an attempt is on record before its first byte",
    "lease checked": "nothing leaves once the lease may be over",
    "memory kept to": "nothing is sent again once the provider may have forgotten its key",
    "silence is unknown": "an attempt that ended without a reply may have been executed",
    "own attempt": "a reply counts for its own attempt alone",
    "doubt after failover": "what another database may know more of is resolved like an unknown outcome",
    "clock put right": "a clock that went back makes no first attempt younger",
    "head of the lane": "of a lane the first alone is leased",
    "leases end": "what a dead relay has leased is taken over when its time is up",
    "hint compared": "a position noted before counts only while the same message stands there",
    "no reply is none": "an outcome that nobody knows is not called sent",
}
MEMORY, LEASE, OLD, BACK = 3, 1, 4, 2
"""In ticks: the provider's memory, a lease, where ages stop to grow, and how far a clock goes back."""
REMEMBERS = msgspec.structs.replace(STRIPE_V1, memory_s=float(MEMORY))
STREAM = msgspec.structs.replace(NATS, memory_s=float(MEMORY))
FORGETS = NONE
CLOSED = (IntentState.SENT, IntentState.DEAD, IntentState.RECONCILE)
"""Done with, or a person's."""


class Relays:
    """The steps of two relays on the intents of one lane, without one of the rules, or with all of them."""

    def __init__(
        self, profile: Profile, may: Faults, intents: int = 1, relays: int = 2, without: str | None = None
    ) -> None:
        self._rules = ReplyRules(profile, "once", ProviderRetry(attempts=3))
        self._horizon = horizon(profile)
        self._may = may
        self._intents, self._relays, self._without = intents, relays, without

    def model(self) -> Model[World]:
        """Return what is to be explored."""
        start = World(
            rows=(Row(),) * self._intents,
            relays=(Relay(),) * self._relays,
            known=(OLD,) * self._intents,
            standby=(Row(),) * self._intents if self._may.failovers else None,
        )
        invariants = {
            "I7 each intent is executed at most once": self.executed_once,
            "I9 a lane is executed in its order": lambda w: list(w.first) == sorted(w.first),
            "I15 what is called sent was executed": self.sent_was_executed,
        }
        return Model(start, self.steps, invariants, self.rests)

    # -- what holds ----------------------------------------------------------------------------------------------

    def executed_once(self, w: World) -> bool:
        """Count what the provider has executed."""
        return all(w.stream.count(named(intent)) <= 1 for intent in range(self._intents))

    def sent_was_executed(self, w: World) -> bool:
        """Look for an intent that is called sent and is not there, where nothing of the stream was lost."""
        return bool(w.faults.losses) or all(
            row.state != IntentState.SENT or named(intent) in w.stream for intent, row in enumerate(w.rows)
        )

    def rests(self, w: World) -> bool:
        """Return whether every intent is done with, or a person's."""
        return all(row.state in CLOSED for row in w.rows) and all(one.at == "idle" for one in w.relays)

    # -- steps ---------------------------------------------------------------------------------------------------

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Return all that may happen next."""
        for index, relay in enumerate(w.relays):
            yield from _STEPS[relay.at](self, w, index, relay)
        yield from self._environment(w)

    def _lease(self, w: World, index: int, relay: Relay) -> Iterator[tuple[str, World]]:
        if w.behind and self._without != "clock put right":
            rows = tuple(
                row if row.age < 0 else row._replace(age=min(OLD, row.age + w.behind)) for row in w.rows
            )
            yield f"rights {index}", w._replace(rows=rows, behind=0)
            return
        for intent, row in enumerate(w.rows):
            if row.state in CLOSED:
                continue
            ended = row.lease == 0 and self._without != "leases end"
            if row.state == IntentState.READY or (
                row.state in (IntentState.LEASED, IntentState.STARTED, IntentState.UNKNOWN)
                and (ended or row.token < 0)
            ):
                yield f"leases {index} {intent}", self._leased(w, index, relay, intent, row)
            if self._without != "head of the lane":
                break

    def _leased(self, w: World, index: int, relay: Relay, intent: int, row: Row) -> World:
        doubtful = row.epoch != w.epoch and self._without != "doubt after failover"
        silent = row.state in (IntentState.STARTED, IntentState.UNKNOWN) or doubtful
        silent = silent and (self._without != "silence is unknown" or doubtful)
        age = row.born if doubtful and row.age < 0 else row.age
        state = IntentState.UNKNOWN if silent else IntentState.LEASED
        taken = row._replace(state=state, token=index, lease=LEASE, age=age, epoch=w.epoch)
        mine = relay._replace(
            at="leased",
            intent=intent,
            attempt=row.attempt,
            spent=row.spent,
            age=age,
            doubted=row.doubted,
            silent=silent,
            left=LEASE,
            hint=row.hint,
        )
        return self._to(self._row(w, intent, taken), index, mine)

    def _decide(self, w: World, index: int, relay: Relay) -> Iterator[tuple[str, World]]:
        """See what is to be done with what was leased: look it up, give it to a person, or start an attempt."""
        standing = _standing(relay)
        what = UnknownPolicy.AGAIN
        if relay.silent:
            what = state_machine.resolve_unknown(standing, self._rules)
        elif self._without != "memory kept to":
            what = state_machine.may_send(standing, self._rules)
        if what is UnknownPolicy.LOOKUP:
            yield f"asks {index}", self._to(w, index, relay._replace(at="asking"))
        elif relay.silent or what is UnknownPolicy.RECONCILE:
            after = _settling(relay, _silent(standing, self._rules), Outcome.UNKNOWN)
            yield f"judges {index}", self._to(w, index, after)
        elif self._without == "start first" and relay.left:
            yield f"skips {index}", self._to(w, index, relay._replace(at="sending"))
        else:
            yield from self._start(w, index, relay)

    def _start(self, w: World, index: int, relay: Relay) -> Iterator[tuple[str, World]]:
        """Put the attempt on record, guarded; one that is not must not be sent."""
        row = w.rows[relay.intent]
        old = self._horizon is not None and row.age >= self._horizon and self._without != "memory kept to"
        if row.token != index or row.state != IntentState.LEASED or not row.lease or old:
            yield f"misses {index}", self._to(w, index, Relay(seen=relay.seen))
            return
        hint = row.hint if row.age >= 0 else relay.seen
        begun = row._replace(
            state=IntentState.STARTED,
            attempt=row.attempt + 1,
            spent=row.spent + 1,
            age=max(row.age, 0),
            hint=hint,
        )
        mine = relay._replace(at="sending", attempt=relay.attempt + 1, spent=relay.spent + 1, hint=hint)
        yield f"starts {index}", self._to(self._row(w, relay.intent, begun), index, mine)

    def _send(self, w: World, index: int, relay: Relay) -> Iterator[tuple[str, World]]:
        """Send, where the lease is not over; the provider executes it, or knows the key."""
        if not relay.left and self._without != "lease checked":
            yield f"late {index}", self._answered(w, index, Outcome.NOT_SENT)
            return
        done = self._executed(w, relay.intent)
        heard = done
        if self._rules.profile.lookup:
            after = relay._replace(seen=(len(done.stream), done.stream[-1]))
            heard = self._to(done, index, after)
        yield f"sends {index}", self._answered(heard, index, Outcome.SENT)
        if (fault := self._happens(w, "silences")) is not None:
            lost = Outcome.SENT if self._without == "no reply is none" else Outcome.UNKNOWN
            yield f"unheard {index}", self._answered(done._replace(faults=fault), index, lost)
            yield f"vanished {index}", self._answered(w._replace(faults=fault), index, lost)
        if (fault := self._happens(w, "refusals")) is not None and w.known[relay.intent] >= MEMORY:
            yield f"refused {index}", self._answered(w._replace(faults=fault), index, Outcome.REFUSED)
        if (fault := self._happens(w, "absences")) is not None:
            yield f"away {index}", self._answered(w._replace(faults=fault), index, Outcome.NOT_SENT)

    def _ask(self, w: World, index: int, relay: Relay) -> Iterator[tuple[str, World]]:
        """Look the key up in the stream, from the position on that was noted before the first attempt."""
        seq, what = relay.hint
        there = w.stream[seq - 1] if 0 < seq <= len(w.stream) else ""
        if named(relay.intent) in w.stream[seq:]:
            found = Outcome.SENT
        elif there != what and self._without != "hint compared":
            found = Outcome.UNKNOWN
        else:
            found = Outcome.NOT_SENT
        step = _looked_up(found, _standing(relay), self._rules)
        yield f"looks {index}", self._to(w, index, _settling(relay, step, found))

    def _settle(self, w: World, index: int, relay: Relay) -> Iterator[tuple[str, World]]:
        """Write the reply, for its own attempt; that something was sent is evidence in any state."""
        row, step = w.rows[relay.intent], relay.next
        assert step is not None
        own = row.attempt == relay.attempt or self._without in ("own attempt", "start first")
        open_ = row.state in (IntentState.STARTED, IntentState.UNKNOWN) or (
            row.state == IntentState.LEASED and row.token == index
        )
        open_ = open_ or (self._without == "own attempt" and row.state not in CLOSED)
        if own and (open_ or (step.state == IntentState.SENT and row.state != IntentState.SENT)):
            row = row._replace(
                state=step.state,
                spent=step.spent,
                token=-1,
                lease=0,
                age=-1 if step.forget else row.age,
                doubted=not step.forget and (row.doubted or relay.outcome == Outcome.UNKNOWN.value),
            )
        if row.state in CLOSED:
            row = Row(state=row.state, attempt=row.attempt, epoch=row.epoch)
        yield f"settles {index}", self._to(self._row(w, relay.intent, row), index, Relay(seen=relay.seen))

    def _environment(self, w: World) -> Iterator[tuple[str, World]]:
        yield from self._time(w)
        if (fault := self._happens(w, "deaths")) is not None:
            for index, relay in enumerate(w.relays):
                if relay.at != "idle":
                    yield f"dies {index}", self._to(w, index, Relay())._replace(faults=fault)
        if w.standby is not None:
            yield "replicates", w._replace(standby=w.rows)
            if (fault := self._happens(w, "failovers")) is not None:
                yield "fails-over", w._replace(rows=w.standby, standby=None, epoch=1, faults=fault)
        if (fault := self._happens(w, "losses")) is not None:
            for kept in range(len(w.stream)):
                lost = {named(i) for i in range(self._intents)} - set(w.stream[:kept])
                known = tuple(OLD if named(i) in lost else age for i, age in enumerate(w.known))
                yield f"loses {kept}", w._replace(stream=w.stream[:kept], known=known, faults=fault)
        if (fault := self._happens(w, "others")) is not None:
            stream = (*w.stream, f"other {w.named}")
            for index, relay in enumerate(w.relays):
                seen = relay._replace(seen=(len(stream), stream[-1]))
                after = w._replace(stream=stream, faults=fault, named=w.named + 1)
                yield f"others {index}", self._to(after, index, seen)

    def _time(self, w: World) -> Iterator[tuple[str, World]]:
        """Let a tick pass, for everybody."""
        asleep = sum(one.at == "sending" and one.left <= 1 for one in w.relays)
        faults = w.faults._replace(sleeps=w.faults.sleeps + asleep)
        if faults.sleeps <= self._may.sleeps:
            after = w._replace(
                rows=tuple(self._older(row) for row in w.rows),
                relays=tuple(
                    one._replace(
                        left=max(0, one.left - 1), age=one.age if one.age < 0 else min(OLD, one.age + 1)
                    )
                    for one in w.relays
                ),
                known=tuple(min(OLD, age + 1) for age in w.known),
                standby=None if w.standby is None else tuple(self._older(row) for row in w.standby),
                faults=faults,
            )
            if after != w:
                yield "ticks", after
        if (fault := self._happens(w, "setbacks")) is not None:
            rows = tuple(row if row.age < 0 else row._replace(age=max(0, row.age - BACK)) for row in w.rows)
            yield "clock-back", w._replace(rows=rows, behind=BACK, faults=fault)

    # -- what a step does ----------------------------------------------------------------------------------------

    def _executed(self, w: World, intent: int) -> World:
        if w.known[intent] < (MEMORY if self._horizon is not None else 0):
            return w
        first = w.first if intent in w.first else (*w.first, intent)
        return w._replace(stream=(*w.stream, named(intent)), known=put(w.known, intent, 0), first=first)

    def _answered(self, w: World, index: int, outcome: Outcome) -> World:
        relay = w.relays[index]
        step = _replied(outcome, _standing(relay), self._rules)
        return self._to(w, index, _settling(relay, step, outcome))

    def _happens(self, w: World, fault: str) -> Faults | None:
        """Return the faults with one more; None where it has happened as often as it may."""
        times = getattr(w.faults, fault)
        return None if times >= getattr(self._may, fault) else w.faults._replace(**{fault: times + 1})

    def _older(self, row: Row) -> Row:
        if row.state in CLOSED:
            return row
        age = row.age if row.age < 0 else min(OLD, row.age + 1)
        born = min(OLD, row.born + 1) if self._may.failovers else 0
        return row._replace(lease=max(0, row.lease - 1), age=age, born=born)

    def _to(self, w: World, index: int, relay: Relay) -> World:
        return w._replace(relays=put(w.relays, index, relay))

    def _row(self, w: World, intent: int, row: Row) -> World:
        return w._replace(rows=put(w.rows, intent, row))


_STEPS = {
    "idle": Relays._lease,
    "leased": Relays._decide,
    "sending": Relays._send,
    "asking": Relays._ask,
    "settling": Relays._settle,
}


def named(intent: int) -> str:
    return f"intent {intent}"


def _settling(relay: Relay, step: Transition, outcome: Outcome) -> Relay:
    """Return a relay that has a reply to write, and nothing else that matters any more."""
    return Relay(
        at="settling",
        intent=relay.intent,
        attempt=relay.attempt,
        next=step,
        outcome=outcome.value,
        seen=relay.seen,
    )


def _standing(relay: Relay) -> AttemptState:
    since = None if relay.age < 0 else float(relay.age)
    return AttemptState(relay.spent, since, fresh=since is None, blocks=False, doubted=relay.doubted)


@cache
def _replied(outcome: Outcome, standing: AttemptState, rules: ReplyRules) -> Transition:
    status = "400" if outcome is Outcome.REFUSED else ""
    return _plain(state_machine.after_reply(Reply(outcome=outcome, status=status), standing, rules, 0.0))


@cache
def _silent(standing: AttemptState, rules: ReplyRules) -> Transition:
    return _plain(state_machine.after_no_reply(standing, rules, 0.0))


@cache
def _looked_up(outcome: Outcome, standing: AttemptState, rules: ReplyRules) -> Transition:
    return _plain(state_machine.after_lookup(Reply(outcome=outcome), standing, rules, 0.0))


def _plain(step: Transition) -> Transition:
    """Return a transition without its times and words: when a thing is due is left to the order of steps."""
    return msgspec.structs.replace(step, wait_s=None, note="")

"""M2, errors: any class of error at any statement, for a while, or for one event for ever.

Whose fault it is, how a batch is divided and what is tried again is decided by the code that ships (`judge`, `divided`,
`next_attempt`); what is modelled is how parts take turns, what can be written while the server is ill, and patience.
A step is one attempt of the first part. Each rule of RULES can be taken out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.error_world import RULES, WAYS, Event, Part, World, is_tried_again, shares
from tests.model.explorer import Model

from projectionist.core.postgres.error_class import ErrorClass
from projectionist.runner.batch.failure_evidence import ENOUGH, FailedPart, NextStep, Way, judge

_SETTLED = ("applied", "waiting", "kept")


class Errors:
    """The steps of one consumer's batches without one of the rules, or with all of them."""

    def __init__(self, events: tuple[Event, ...], falls: int = 1, without: str | None = None) -> None:
        assert without is None or without in RULES
        self._events, self._falls, self._without = events, falls, without

    def model(self) -> Model[World]:
        """Return what is to be explored."""
        invariants = {
            "I1 what is acked is on record": lambda w: all(w.events[n] != "new" for n in w.acked),
            "I5 only what is bad waits for a person": self.only_bad_ones_wait,
            "I13 a fault of the server puts aside one event in a patience": lambda w: w.put_aside <= 1,
        }
        return Model(World(("new",) * len(self._events)), self.steps, invariants, self.rests)

    # -- what holds ----------------------------------------------------------------------------------------------

    def only_bad_ones_wait(self, w: World) -> bool:
        """Look for a good event that nothing but a person or newer code would bring back."""
        return all(
            event.says is not None or state not in ("waiting", "kept")
            for event, state in zip(self._events, w.events, strict=True)
        )

    def rests(self, w: World) -> bool:
        """Return whether every good event is applied, or behind a bad one of its aggregate; and the server is well."""
        return (
            not w.lanes
            and not w.ill
            and all(
                event.says is not None or state == "applied" or self._is_behind_a_bad_one(event)
                for event, state in zip(self._events, w.events, strict=True)
            )
        )

    # -- steps ---------------------------------------------------------------------------------------------------

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Return all that may happen next."""
        if w.lanes:
            yield self._tried(w)
        else:
            yield from self._begun(w)
        if not w.ill and w.falls < self._falls:
            yield "ill server", w._replace(ill="server", falls=w.falls + 1)
            yield "ill tables", w._replace(ill="tables", falls=w.falls + 1)
        if w.ill:
            yield "recovers", w._replace(ill="")
        if any(part != _older(part) for lane in w.lanes for part in lane):
            lanes = tuple(tuple(_older(part) for part in lane) for lane in w.lanes)
            yield "waits", w._replace(lanes=lanes, put_aside=0)

    def _begun(self, w: World) -> Iterator[tuple[str, World]]:
        fresh = tuple(n for n, state in enumerate(w.events) if state == "new")
        if fresh:
            yield "delivers", w._replace(lanes=((Part(events=fresh),),))
        for aggregate in sorted({event.aggregate for event in self._events}):
            if self._is_due(w, aggregate):
                yield f"due {aggregate}", w._replace(lanes=((Part(due=aggregate),),))
        for number, state in enumerate(w.events):
            if state == "aside":
                yield f"reads {number}", w._replace(lanes=((Part(events=(number,), released=True),),))

    def _tried(self, w: World) -> tuple[str, World]:
        part = w.lanes[0][0]
        error, at = self._error(w, part)
        return self._done(w, part) if error is None else self._missed(w, part, error, at)

    def _error(self, w: World, part: Part) -> tuple[ErrorClass | None, int | None]:
        """Return what an attempt raises, and during which aggregate."""
        events, runs = self._content(w, part), set(self._running(w, part))
        if w.ill == "server" or (w.ill == "tables" and part.way is Way.APPLY and runs):
            return ErrorClass.INFRASTRUCTURE, None
        for number in events:
            event = self._events[number]
            way = WAYS.index(part.way) if number in runs or part.way is not Way.APPLY else 1
            if event.says is not None and event.ways > way:
                return event.says, event.aggregate if part.way is Way.APPLY else None
        return None, None

    def _missed(self, w: World, part: Part, error: ErrorClass, at: int | None) -> tuple[str, World]:
        known = part.released or (
            part.way is Way.APPLY and part.due is not None and self._has_failed(w, part.due)
        )
        parts = []
        if part.way is Way.APPLY:
            parts = shares(self._events, (part.events, part.due, part.limit), at, known)
        part = part._replace(
            misses=min(part.misses + 1, ENOUGH),
            unparked=min(part.unparked + (part.way is Way.FAIL), ENOUGH),
            missed=True,
        )
        miss = FailedPart(
            trouble=error,
            way=part.way,
            misses=part.unparked if part.way is Way.FAIL else part.misses,
            single=not parts,
            others=part.others,
            waited=part.waited or self._without == "patience",
            exhausted=part.exhausted,
            known=known,
        )
        return self._take(w, self._judged(miss), part, parts, miss)

    def _judged(self, miss: FailedPart) -> NextStep:
        step = judge(miss)
        holes = {
            "divided": NextStep.SPLIT,
            "bytes": NextStep.PUT_ASIDE,
            "left": NextStep.LEAVE,
        }
        if holes.get(self._without or "") is step:
            return NextStep.AGAIN
        if self._without == "blamed" and step is NextStep.FAIL and miss.trouble is not ErrorClass.DATA:
            return NextStep.AGAIN
        return step

    def _take(
        self, w: World, step: NextStep, part: Part, parts: list[list[Part]], miss: FailedPart
    ) -> tuple[str, World]:
        rest, tail = w.lanes[0][1:], w.lanes[1:]
        match step:
            case NextStep.AGAIN:
                if part.way is Way.FAIL:  # it cannot be parked either: so it is not this event
                    part = part._replace(way=Way.APPLY, misses=0, says=None)
                return "again", w._replace(lanes=(*tail, (part, *rest)))
            case NextStep.SPLIT:
                fresh = [[_heir(part, one) for one in lane] for lane in parts]
                fresh[-1] += rest
                return "splits", w._replace(lanes=(*(tuple(lane) for lane in fresh), *tail))
            case NextStep.FAIL:
                return "blames", self._blamed(w, part, miss)
            case NextStep.PUT_ASIDE if part.events and not part.released:
                aside = part._replace(way=Way.PUT_ASIDE, misses=0, says=miss.trouble)
                return "shelves", w._replace(lanes=((aside, *rest), *tail))
            case NextStep.RAISE:
                return "raises", w._replace(lanes=())
            case _:
                after = _through(w)
                if self._without == "left unacked":
                    after = after._replace(acked=after.acked | set(part.events))
                return "leaves", after

    def _blamed(self, w: World, part: Part, miss: FailedPart) -> World:
        failing = part._replace(way=Way.FAIL, misses=0, says=miss.trouble)
        lanes = ((failing, *w.lanes[0][1:]), *w.lanes[1:])
        if miss.trouble is ErrorClass.DATA or miss.others or miss.known:
            return w._replace(lanes=lanes)
        if self._without != "one at a time":
            lanes = tuple(tuple(one._replace(waited=False) for one in lane) for lane in lanes)
        return w._replace(lanes=lanes, put_aside=min(w.put_aside + 1, 2))

    def _done(self, w: World, part: Part) -> tuple[str, World]:
        """Commit the first part."""
        events = list(w.events)
        if part.way is Way.APPLY:
            runs = self._running(w, part)
            for number in self._content(w, part):
                events[number] = "applied" if number in runs else "parked"
        else:
            assert part.says is not None
            again = is_tried_again(part.says) and self._without != "tried again"
            states = ("aside", "kept") if part.way is Way.PUT_ASIDE else ("failed", "waiting")
            passes = part.says is ErrorClass.INFRASTRUCTURE if part.way is Way.PUT_ASIDE else again
            failed = part.events if part.due is None else (self._head(w, part.due),)
            for number in failed:
                events[number] = states[not passes]
        after = _through(w)._replace(events=tuple(events), acked=w.acked | set(part.events))
        if part.way is Way.APPLY and self._running(w, part):
            lanes = tuple(
                tuple(one._replace(others=one.others or one.missed) for one in lane) for lane in after.lanes
            )
            return "applies", after._replace(lanes=lanes)
        return f"settles {part.way}", after

    # -- what can be asked ---------------------------------------------------------------------------------------

    def _content(self, w: World, part: Part) -> tuple[int, ...]:
        """Return the events that an attempt is about, in the order in which it comes to them."""
        if part.due is None:
            return tuple(
                sorted(part.events, key=lambda n: (self._events[n].aggregate, self._events[n].version))
            )
        waiting = [n for n in self._of(part.due) if w.events[n] in ("failed", "parked")]
        return tuple(waiting[: 2 if part.limit is None else part.limit])

    def _running(self, w: World, part: Part) -> tuple[int, ...]:
        """Return those of them whose handler runs: the versions before are applied, or run before them."""
        runs: list[int] = []
        for number in self._content(w, part):
            before = [n for n in self._of(self._events[number].aggregate) if n < number]
            if all(w.events[n] == "applied" or n in runs for n in before):
                runs.append(number)
        return tuple(runs)

    def _of(self, aggregate: int) -> list[int]:
        return [n for n, event in enumerate(self._events) if event.aggregate == aggregate]

    def _head(self, w: World, aggregate: int) -> int:
        return next(n for n in self._of(aggregate) if w.events[n] != "applied")

    def _has_failed(self, w: World, aggregate: int) -> bool:
        return any(w.events[n] == "failed" for n in self._of(aggregate))

    def _is_due(self, w: World, aggregate: int) -> bool:
        left = [w.events[n] for n in self._of(aggregate) if w.events[n] != "applied"]
        return bool(left) and left[0] in ("failed", "parked")

    def _is_behind_a_bad_one(self, event: Event) -> bool:
        return any(
            one.says is not None and one.aggregate == event.aggregate and one.version < event.version
            for one in self._events
        )


def _through(w: World) -> World:
    """Take the first part off."""
    first = w.lanes[0][1:]
    return w._replace(lanes=(first, *w.lanes[1:]) if first else w.lanes[1:])


def _older(part: Part) -> Part:
    return part._replace(waited=True, exhausted=part.exhausted or part.waited) if part.missed else part


def _heir(part: Part, share: Part) -> Part:
    return share._replace(
        missed=part.missed,
        others=part.others,
        waited=part.waited,
        exhausted=part.exhausted,
        released=part.released,
    )

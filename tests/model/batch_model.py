"""M1, the batch: processes that claim, lock, judge and write beside each other, with crashes, a taker, a person, purge.

What an aggregate does is decided by the code that ships (`plan_aggregate`, `record_outcome`); what is modelled is all
around it: which statement waits for whom, what each sees, and where a process may end. A statement is a step, and a
lock is waited for by having no step. Each rule of RULES can be taken out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.batch_world import Place, Scenario, Tx, World, decide
from tests.model.explorer import Model, put

from projectionist.core.states import AggregateState

_OPEN = {"claim", "turn", "place", "lock", "judge", "row", "commit"}
"""Between the barrier and the end of the transaction."""
_LOCKED = {"lock", "judge", "row", "commit"}


class Batches:
    """The steps of a scenario without one of the rules, or with all of them."""

    def __init__(self, scenario: Scenario, without: str | None = None) -> None:
        self._scenario = scenario
        self._events = scenario.events
        self._without = without
        self._aggregates = 1 + max(event.aggregate for event in scenario.events)
        self._processes = 1 + max((process for process, _ in scenario.batches), default=0)

    def model(self) -> Model[World]:
        """Return what is to be explored."""
        start = World(
            inbox=("",) * len(self._events),
            places=(None,) * self._aggregates,
            rows=((),) * self._aggregates,
            shared=None,
            batches=(Tx(),) * len(self._scenario.batches),
            epochs=(0,) * self._processes,
        )
        invariants = {
            "I2 the shared row holds what was applied": self.shared_row_is_whole,
            "I3 inbox, position and parked events agree": self.tables_agree,
            "I4 versions are applied from 1 on, in order, once": self.versions_are_contiguous,
            "I5 what is next is not left parked": self.nothing_is_left_parked,
            "I12 nothing is committed after a takeover": lambda w: not w.late,
            "I17 what is acked is committed": self.acks_follow_commits,
        }
        return Model(start, self.steps, invariants, self.rests)

    # -- what holds ----------------------------------------------------------------------------------------------

    def shared_row_is_whole(self, w: World) -> bool:
        """Compare the shared row with all rows of one aggregate."""
        if not self._scenario.shared:
            return True
        folded = [(a, version) for a, row in enumerate(w.rows) for version in row]
        return sorted(w.shared or ()) == sorted(self._event(a, version) for a, version in folded)

    def tables_agree(self, w: World) -> bool:
        """Compare what is in the inbox with rows and positions."""
        for number, event in enumerate(self._events):
            if w.inbox[number] == "applied" and event.version not in w.rows[event.aggregate]:
                return False
        return all(
            place is None or place.waiting == len(self._parked(w, a)) for a, place in enumerate(w.places)
        )

    def versions_are_contiguous(self, w: World) -> bool:
        """Compare each row with the position of its aggregate."""
        for aggregate, (place, row) in enumerate(zip(w.places, w.rows, strict=True)):
            reached = range(1, 1 + (place.version if place else 0))
            over = self._versions(w, aggregate, "skipped")
            if row != tuple(version for version in reached if version not in over):
                return False
        return True

    def nothing_is_left_parked(self, w: World) -> bool:
        """Look, when all is over, for a parked event that nobody will come to."""
        return not self.rests(w) or not any(
            place.version + 1 in self._parked(w, aggregate) and place.head != AggregateState.WAITING
            for aggregate, place in enumerate(w.places)
            if place is not None
        )

    def acks_follow_commits(self, w: World) -> bool:
        """Look for what was acked and is not on record."""
        return all(w.inbox[number] or number in w.purged for number in w.acked)

    def rests(self, w: World) -> bool:
        """Return whether every delivery is settled, and nothing is due."""
        taken = self._scenario.taker is None or w.epoch > 0
        return (
            taken
            and not self._due(w)
            and all(
                tx.at in ("done", "gone") or (tx.at == "begin" and not self._given(index))
                for index, tx in enumerate(w.batches)
            )
        )

    # -- steps ---------------------------------------------------------------------------------------------------

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Return all that may happen next."""
        for index, tx in enumerate(w.batches):
            yield from _STEPS[tx.at](self, w, index, tx)
            if tx.at == "commit" and w.unknown < self._scenario.unknown:
                yield from self._unheard(w, index, tx)
        yield from self._environment(w)

    def _begin(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        before = self._before(index)
        if before is not None and not tx.alone and self._without != "turn":
            ahead = w.batches[before]
            if not ahead.turn and ahead.at not in ("acks", "done", "gone"):
                return
        process = self._scenario.batches[index][0]
        if self._scenario.taker == process and not w.epoch:
            return
        if not self._given(index) and not (self._due(w) and self._is_idle(w, index)):
            return
        if w.epochs[process] < w.epoch:
            yield f"superseded {index}", self._to(w, index, tx._replace(at="gone", turn=2))
            return
        early = tuple(enumerate(w.places)) if self._without == "read after lock" else ()
        at = "acks" if self._without == "ack last" and self._given(index) and not tx.turn else "claim"
        yield (
            f"enters {index}",
            self._to(w, index, tx._replace(at=at, number=0, epoch=w.epoch, locked=early)),
        )

    def _claim(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        given = self._given(index)
        asked = given if self._without == "claim order" else sorted(set(given))
        if tx.number == len(asked):
            after = tx._replace(at="turn", number=0, turn=max(1, tx.turn))
            yield f"claimed {index}", self._to(w, index, after)
            return
        event = asked[tx.number]
        if any(
            event in other.fresh for at, other in enumerate(w.batches) if at != index and other.at in _OPEN
        ):
            return  # the row of a peer: whoever wants it waits for the peer's end
        fresh = tx.fresh if w.inbox[event] else tx.fresh | {event}
        what = "known" if w.inbox[event] else "claims"
        claimed = self._to(w, index, tx._replace(number=tx.number + 1, fresh=fresh))
        if self._without == "one transaction":
            claimed = claimed._replace(inbox=put(w.inbox, event, w.inbox[event] or "applied"))
        yield f"{what} {index}", claimed

    def _lock_turn(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        before = self._before(index)
        if before is not None and not tx.alone:
            ahead = w.batches[before]
            if ahead.turn < 2 and ahead.at not in ("acks", "done", "gone"):
                return
        after = "lock" if self._without == "placeholders" else "place"
        yield f"turns {index}", self._to(w, index, tx._replace(at=after, groups=self._groups(w, index, tx)))

    def _place(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        groups = sorted(aggregate for aggregate, _ in tx.groups)
        if tx.number == len(groups):
            behind = None
            if self._without == "parked after lock":
                behind = tuple(self._parked(w, aggregate) for aggregate in range(self._aggregates))
            yield f"placed {index}", self._to(w, index, tx._replace(at="lock", number=0, behind=behind))
            return
        aggregate = groups[tx.number]
        if any(aggregate in other.placed for at, other in enumerate(w.batches) if at != index):
            return
        placed = tx.placed | {aggregate} if w.places[aggregate] is None else tx.placed
        yield f"places {index}", self._to(w, index, tx._replace(number=tx.number + 1, placed=placed))

    def _lock(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        order = self._order(tx)
        if tx.number == len(order):
            yield f"locked {index}", self._to(w, index, tx._replace(at="judge", number=0, turn=2))
            return
        aggregate = order[tx.number]
        if self._is_locked(w, aggregate, index):
            return
        locked = dict(tx.locked)
        if self._without != "read after lock":
            locked[aggregate] = w.places[aggregate]
        after = tx._replace(number=tx.number + 1, locked=tuple(locked.items()))
        yield f"locks {index}", self._to(w, index, after)

    def _judge(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        decided = []
        locked = dict(tx.locked)
        for aggregate, fresh in tx.groups:
            place = locked.get(aggregate) or Place()
            behind = self._parked(w, aggregate) if tx.behind is None else tx.behind[aggregate]
            due = not self._given(index) and place.head == AggregateState.DRAINING
            poison = frozenset(e.version for e in self._events if e.aggregate == aggregate and e.poison)
            decided.append((aggregate, decide(place, fresh, behind, poison, due, self._scenario.drain)))
        after = tx._replace(decided=tuple(decided))
        folds = self._scenario.shared and any(one.applied for _, one in decided)
        yield f"judges {index}", self._to(w, index, after._replace(at="row" if folds else "commit"))

    def _row(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        """Read the shared row for update, or find that there is none; then fold, and write."""
        others = [other for at, other in enumerate(w.batches) if at != index and other.at in _OPEN]
        if tx.number == 0:
            if any(other.row is not None for other in others):
                return
            yield f"reads {index}", self._to(w, index, tx._replace(number=1, row=w.shared))
            return
        if tx.row is None:
            if any(other.inserts for other in others):
                return
            if w.shared is not None and self._without != "counted insert":
                yield f"again {index}", self._rolled_back(w, index)
                return
        inserts = tx.row is None
        yield f"writes {index}", self._to(w, index, tx._replace(at="commit", number=0, inserts=inserts))

    def _commit(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        yield f"commits {index}", self._committed(w, index, tx)

    def _acks(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        acked = w.acked | set(self._given(index))
        after = Tx(at="done") if self._given(index) else Tx()
        if self._without == "ack last" and tx.at == "acks" and not tx.turn:
            after = tx._replace(at="claim", turn=1)
        yield f"acks {index}", self._to(w, index, after)._replace(acked=acked)

    def _over(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        return iter(())

    def _unheard(self, w: World, index: int, tx: Tx) -> Iterator[tuple[str, World]]:
        """The answer to COMMIT is lost: it may have taken place, or not."""
        w = w._replace(unknown=w.unknown + 1)
        yield f"unheard {index}", self._rolled_back(self._committed(w, index, tx), index)
        if self._without == "unknown commit":
            yield f"refused {index}", self._to(w, index, Tx(at="acks", turn=2))
        else:
            yield f"refused {index}", self._rolled_back(w, index)

    def _environment(self, w: World) -> Iterator[tuple[str, World]]:
        if w.crashes < self._scenario.crashes:
            for process in range(self._processes):
                batches = tuple(
                    Tx() if mine == process and tx.at not in ("done", "gone") else tx
                    for (mine, _), tx in zip(self._scenario.batches, w.batches, strict=True)
                )
                if batches != w.batches:
                    yield f"dies {process}", w._replace(batches=batches, crashes=w.crashes + 1)
        open_ = any(tx.at in _OPEN for tx in w.batches)
        taker = self._scenario.taker
        if taker is not None and not w.epoch and (not open_ or self._without == "barrier"):
            epochs = tuple(1 if process == taker else known for process, known in enumerate(w.epochs))
            yield f"takes {taker}", w._replace(epoch=1, epochs=epochs)
        if self._scenario.purge:
            for number in w.acked:
                if w.inbox[number] == "applied":
                    inbox = put(w.inbox, number, "")
                    yield f"purges {number}", w._replace(inbox=inbox, purged=w.purged | {number})
        if self._scenario.person:
            yield from self._skip(w)

    def _skip(self, w: World) -> Iterator[tuple[str, World]]:
        """A person steps over the event that an aggregate waits at."""
        for aggregate, place in enumerate(w.places):
            if place is None or place.head != AggregateState.WAITING:
                continue
            if self._without == "act locks":
                if w.seen is None:
                    yield f"looks {aggregate}", w._replace(seen=place)
                    continue
                place = w.seen  # noqa: PLW2901 - the hole: what was seen may be old
            elif self._is_locked(w, aggregate, None):
                continue
            number = self._event(aggregate, place.version + 1)
            left = place.waiting - 1
            head = AggregateState.DRAINING if left else AggregateState.CLEAR
            moved = Place(place.version + 1, head, left)
            inbox, places = put(w.inbox, number, "skipped"), put(w.places, aggregate, moved)
            yield f"skips {aggregate}", w._replace(inbox=inbox, places=places, seen=None)

    # -- what a step does ----------------------------------------------------------------------------------------

    def _committed(self, w: World, index: int, tx: Tx) -> World:
        inbox, places, rows = list(w.inbox), list(w.places), list(w.rows)
        shared = list((tx.row or ()) if tx.row is not None or tx.inserts else w.shared or ())
        for number in tx.fresh:
            inbox[number] = "applied"
        folded = False
        for aggregate, one in tx.decided:
            places[aggregate] = one.place
            rows[aggregate] = (*rows[aggregate], *one.applied)
            for versions, state in ((one.applied, "applied"), (one.parked, "parked"), (one.stale, "stale")):
                for version in versions:
                    number = self._event(aggregate, version)
                    if state != "stale" or number in tx.fresh:
                        inbox[number] = state
            shared += [self._event(aggregate, version) for version in one.applied]
            folded = folded or bool(one.applied)
        return self._to(w, index, Tx(at="acks", turn=2))._replace(
            inbox=tuple(inbox),
            places=tuple(places),
            rows=tuple(rows),
            shared=tuple(sorted(shared)) if folded else w.shared,
            late=w.late or tx.epoch < w.epoch,
        )

    def _rolled_back(self, w: World, index: int) -> World:
        """Have the batch begin anew: it gives its turn up."""
        given_up = self._without != "turn over"
        return self._to(w, index, Tx(turn=2 if given_up else 0, alone=given_up))

    def _to(self, w: World, index: int, tx: Tx) -> World:
        return w._replace(batches=put(w.batches, index, tx))

    # -- what can be asked ---------------------------------------------------------------------------------------

    def _given(self, index: int) -> tuple[int, ...]:
        return self._scenario.batches[index][1]

    def _before(self, index: int) -> int | None:
        process = self._scenario.batches[index][0]
        return next((at for at in range(index - 1, -1, -1) if self._scenario.batches[at][0] == process), None)

    def _is_idle(self, w: World, index: int) -> bool:
        process = self._scenario.batches[index][0]
        return all(
            tx.at == "done"
            for at, tx in enumerate(w.batches)
            if at != index and self._scenario.batches[at][0] == process
        )

    def _due(self, w: World) -> bool:
        return any(place is not None and place.head == AggregateState.DRAINING for place in w.places)

    def _groups(self, w: World, index: int, tx: Tx) -> tuple[tuple[int, tuple[int, ...]], ...]:
        if not self._given(index):
            places = enumerate(w.places)
            return tuple((a, ()) for a, place in places if place and place.head == AggregateState.DRAINING)
        groups: dict[int, tuple[int, ...]] = {}
        for event in (self._events[number] for number in self._given(index) if number in tx.fresh):
            groups[event.aggregate] = (*groups.get(event.aggregate, ()), event.version)
        return tuple(groups.items())

    def _parked(self, w: World, aggregate: int) -> tuple[int, ...]:
        return self._versions(w, aggregate, "parked")

    def _versions(self, w: World, aggregate: int, state: str) -> tuple[int, ...]:
        found = [
            e.version
            for e, is_ in zip(self._events, w.inbox, strict=True)
            if is_ == state and e.aggregate == aggregate
        ]
        return tuple(sorted(found))

    def _event(self, aggregate: int, version: int) -> int:
        return next(
            number
            for number, event in enumerate(self._events)
            if (event.aggregate, event.version) == (aggregate, version)
        )

    def _is_locked(self, w: World, aggregate: int, index: int | None) -> bool:
        """Return whether another transaction holds the row: it has locked it, or has made it."""
        for at, other in enumerate(w.batches):
            if at == index or other.at not in _OPEN:
                continue
            order = self._order(other)
            held = order[: other.number] if other.at == "lock" else order
            if aggregate in other.placed or (
                other.at in _LOCKED and aggregate in held and w.places[aggregate]
            ):
                return True
        return False

    def _order(self, tx: Tx) -> list[int]:
        aggregates = [aggregate for aggregate, _ in tx.groups]
        return aggregates if self._without == "lock order" else sorted(aggregates)


_STEPS = {
    "begin": Batches._begin,
    "claim": Batches._claim,
    "turn": Batches._lock_turn,
    "place": Batches._place,
    "lock": Batches._lock,
    "judge": Batches._judge,
    "row": Batches._row,
    "commit": Batches._commit,
    "acks": Batches._acks,
    "done": Batches._over,
    "gone": Batches._over,
}

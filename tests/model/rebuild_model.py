"""M4, rebuild and swap: a build beside live batches, with deaths, takeovers, a person's decisions and a slow broker.

A batch, a round and a swap are as many steps as they are transactions; the barrier is waited for by having no step.
What a round plans is what `plan_catch_up.sql` does: of each marked aggregate, what live has applied and the shadow has
not. Each rule of RULES can be taken out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Model, put
from tests.model.rebuild_world import RULES, Batch, Builder, Event, World

OLD, NEW = 0, 1
_WORKING = ("bulk", "catching", "flipped", "planned", "stands", "folded", "ready")


class Rebuilds:
    """The steps of live batches and builders without one of the rules, or with all of them."""

    def __init__(
        self,
        events: tuple[Event, ...],
        builders: int = 1,
        deaths: int = 0,
        beside: int = 1,
        skips: bool = False,
        without: str | None = None,
    ) -> None:
        """Take the bounds; `beside`: so many batches may be open at once."""
        assert without is None or without in RULES
        self._events, self._builders, self._deaths = events, builders, deaths
        self._beside, self._skips, self._without = beside, skips, without
        self._aggregates = range(1 + max(event.aggregate for event in events))

    def model(self) -> Model[World]:
        """Return what is to be explored."""
        nothing = ((),) * len(self._aggregates)
        start = World(
            states=("",) * len(self._events),
            positions=(0,) * len(self._aggregates),
            rows=(nothing, nothing),
            builders=(Builder(),) * self._builders,
            shadow=(0,) * len(self._aggregates),
        )
        invariants = {
            "I3 the shadow's rows are of where it stands": self.shadow_is_whole,
            "I11 what readers see is what live has applied": self.generation_is_whole,
            "I12 nothing is written for a build by who has lost it": lambda w: not w.late,
            "I13 no batch waits for the broker": lambda w: not w.hung,
            "I20 a shadow never passes live": self.shadow_is_behind,
            "I21 what was stepped over is stepped over again": self.decisions_hold,
        }
        return Model(start, self.steps, invariants, self.rests)

    # -- what holds ----------------------------------------------------------------------------------------------

    def shadow_is_whole(self, w: World) -> bool:
        """Compare the shadow's rows with where it stands."""
        return w.generation == NEW or all(
            all(version <= w.shadow[a] for version in row) and len(set(row)) == len(row)
            for a, row in enumerate(w.rows[NEW])
        )

    def generation_is_whole(self, w: World) -> bool:
        """Compare the rows that readers see with the inbox."""
        for aggregate in self._aggregates:
            applied = [v for n, v in self._of(aggregate) if w.states[n] == "applied"]
            row = [v for v in w.rows[w.generation][aggregate] if not self._is_skipped(w, aggregate, v)]
            if row != applied:
                return False
        return True

    def shadow_is_behind(self, w: World) -> bool:
        """Compare where the shadow stands with where live does."""
        return w.generation == NEW or all(s <= p for s, p in zip(w.shadow, w.positions, strict=True))

    def decisions_hold(self, w: World) -> bool:
        """Look for a skipped event in any row."""
        return not any(
            self._is_skipped(w, a, v) for rows in w.rows for a, row in enumerate(rows) for v in row
        )

    def rests(self, w: World) -> bool:
        """Return whether everything is applied, and built."""
        return all(w.states) and w.generation == NEW and not w.batches

    # -- steps ---------------------------------------------------------------------------------------------------

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Return all that may happen next."""
        yield from self._live(w)
        for index, one in enumerate(w.builders):
            if one.at in _WORKING and one.epoch != w.epoch:
                late = self._without == "epoch held"
                yield f"loses {index}", self._to(w, index, Builder(at="gone"))._replace(late=late)
            elif step := _STEPS.get(one.at):
                yield from step(self, w, index, one)
            if one.at in _WORKING and w.deaths < self._deaths:
                yield f"dies {index}", self._to(w, index, Builder())._replace(deaths=w.deaths + 1)

    def _live(self, w: World) -> Iterator[tuple[str, World]]:
        """Apply the next event of an aggregate, in a batch that opens and commits; or step over it."""
        busy = {self._events[one.event].aggregate for one in w.batches}
        held = any(one.at == "waiting" for one in w.builders)
        for number, event in enumerate(self._events):
            is_next = not w.states[number] and event.version == w.positions[event.aggregate] + 1
            if not is_next or event.aggregate in busy:
                continue
            if held:
                yield f"hangs {number}", w._replace(hung=True)
                continue
            if len(w.batches) < self._beside:
                mine = Batch(number, w.slot if w.building else -1, w.generation)
                yield f"opens {number}", w._replace(batches=tuple(sorted((*w.batches, mine))))
            if self._skips and number == 0:
                yield (
                    f"skips {number}",
                    self._moved(w, Batch(number, w.slot if w.building else -1), "skipped"),
                )
        for one in w.batches:
            after = w._replace(batches=tuple(other for other in w.batches if other != one))
            yield f"commits {one.event}", self._moved(after, one, "applied")

    def _moved(self, w: World, batch: Batch, state: str) -> World:
        aggregate, version = self._events[batch.event]
        rows = w.rows
        if state == "applied":
            row = (*rows[batch.generation][aggregate], version)
            rows = put(rows, batch.generation, put(rows[batch.generation], aggregate, row))
        marks = w.marks
        if batch.slot >= 0 and self._without != "marks":
            marks = (
                (marks[0] | {aggregate}, marks[1]) if batch.slot == 0 else (marks[0], marks[1] | {aggregate})
            )
        return w._replace(
            states=put(w.states, batch.event, state),
            positions=put(w.positions, aggregate, version),
            rows=rows,
            marks=marks,
        )

    def _opens_build(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        """Open a build, or go on with one that was left; whoever had it has lost it."""
        left = w.building and (self._builders > 1 or w.deaths) and self._without != "resumed"
        if w.generation == NEW or (w.building and not left):
            return
        after = w._replace(epoch=w.epoch + 1)
        if w.building:
            at = "catching" if any(w.shadow) else "bulk"
            yield f"resumes {index}", self._to(after, index, Builder(at=at, epoch=after.epoch))
        elif not w.batches:
            after = after._replace(building=True)
            yield f"builds {index}", self._to(after, index, Builder(at="bulk", epoch=after.epoch))

    def _bulk(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        """Fold history up to where live stands, in one transaction; what moves from now on is marked."""
        upto = len(self._events) if self._without == "only what live applied" else 0
        seqs = tuple(
            n
            for n, event in enumerate(self._events)
            if event.version <= max(w.positions[event.aggregate], upto)
            and (w.states[n] != "skipped" or self._without == "decisions")
        )
        stand = tuple(max(p, upto and len(self._of(a))) for a, p in enumerate(w.positions))
        after = self._folded(w, seqs)._replace(shadow=stand)
        yield f"folds {index}", self._to(after, index, one._replace(at="catching"))

    def _flips(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        """Flip the slot beside no open batch; what was marked in the old one is seen to."""
        if not w.batches or self._without == "flip alone":
            slot = w.slot if not w.marks[1 - w.slot] else 1 - w.slot
            flipped = w._replace(slot=1 - slot)
            yield f"flips {index}", self._to(flipped, index, one._replace(at="flipped", slot=slot))

    def _plans(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        seen = w.marks[one.slot]
        plan = self._planned(w, seen)
        after = w if self._without != "marks last" else _unmarked(w, one.slot)
        yield f"plans {index}", self._to(after, index, one._replace(at="planned", plan=plan, seen=seen))

    def _round(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        """Fold the plan: rows and positions in one transaction."""
        folded = self._folded(w, one.plan)
        if self._without == "positions with rows":
            yield f"catches {index}", self._to(folded, index, one._replace(at="stands"))
            return
        after = self._stands(folded, one)
        yield f"catches {index}", self._to(after, index, one._replace(at="folded"))

    def _stand(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        yield f"stands {index}", self._to(self._stands(w, one), index, one._replace(at="folded"))

    def _unmarks(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        """Remove the marks that were seen to: nobody has written that slot since it was flipped."""
        after = Builder(at="ready", epoch=one.epoch)
        yield f"unmarks {index}", self._to(_unmarked(w, one.slot), index, after)

    def _swaps(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        """Under the barrier: fold the rest of both slots, from what is at hand, and exchange; or leave it."""
        yield f"again {index}", self._to(w, index, one._replace(at="catching"))
        if w.batches and self._without != "swap alone":
            return
        if self._without == "tail at hand":
            yield f"enters {index}", self._to(w, index, one._replace(at="waiting"))
            return
        yield f"swaps {index}", self._exchanged(w, index, one)

    def _waits(self, w: World, index: int, one: Builder) -> Iterator[tuple[str, World]]:
        yield f"swaps {index}", self._exchanged(w, index, one)

    # -- what a step does ----------------------------------------------------------------------------------------

    def _exchanged(self, w: World, index: int, one: Builder) -> World:
        seen = w.marks[0] | w.marks[1]
        last = one._replace(plan=self._planned(w, seen), seen=seen)
        after = self._stands(self._folded(w, last.plan), last)
        builders = put(after.builders, index, Builder(at="done"))
        return after._replace(
            generation=NEW, building=False, marks=(frozenset(), frozenset()), builders=builders
        )

    def _planned(self, w: World, marked: frozenset[int]) -> tuple[int, ...]:
        return tuple(
            n
            for n, (aggregate, version) in enumerate(self._events)
            if aggregate in marked
            and w.shadow[aggregate] < version <= w.positions[aggregate]
            and w.states[n] == "applied"
        )

    def _folded(self, w: World, seqs: tuple[int, ...]) -> World:
        rows = w.rows[NEW]
        for aggregate, version in sorted(self._events[n] for n in seqs):
            rows = put(rows, aggregate, (*rows[aggregate], version))
        return w._replace(rows=put(w.rows, NEW, rows))

    def _stands(self, w: World, one: Builder) -> World:
        """Have the shadow stand where its plan leads: up to what live had applied, decisions among it."""
        shadow = list(w.shadow)
        for aggregate in one.seen:
            versions = [v for n, v in self._of(aggregate) if n in one.plan or w.states[n] == "skipped"]
            shadow[aggregate] = max([shadow[aggregate], *versions])
        return w._replace(shadow=tuple(shadow))

    def _to(self, w: World, index: int, one: Builder) -> World:
        return w._replace(builders=put(w.builders, index, one))

    # -- what can be asked ---------------------------------------------------------------------------------------

    def _of(self, aggregate: int) -> list[tuple[int, int]]:
        return [(n, e.version) for n, e in enumerate(self._events) if e.aggregate == aggregate]

    def _is_skipped(self, w: World, aggregate: int, version: int) -> bool:
        return any(w.states[n] == "skipped" for n, v in self._of(aggregate) if v == version)


def _unmarked(w: World, slot: int) -> World:
    return w._replace(marks=(frozenset(), w.marks[1]) if slot == 0 else (w.marks[0], frozenset()))


_STEPS = {
    "idle": Rebuilds._opens_build,
    "bulk": Rebuilds._bulk,
    "catching": Rebuilds._flips,
    "flipped": Rebuilds._plans,
    "planned": Rebuilds._round,
    "stands": Rebuilds._stand,
    "folded": Rebuilds._unmarks,
    "ready": Rebuilds._swaps,
    "waiting": Rebuilds._waits,
}

"""Catching up: brings the shadow to where the live generation stands, aggregate by aggregate.

Live batches mark what they move. A round flips the slot they mark in, plans from the inbox which events brought
each marked aggregate to its position, and folds those: exactly what live has applied, and never more. The plan is
one statement, so positions and inbox are of one moment; its events are in the stream, since live has read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core import clock
from projectionist.core.printable_text import join_first
from projectionist.core.testpoints import announce
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.planning import CONTIGUOUS, UNORDERED
from projectionist.runner.database.queries import RebuildError, first_position
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.fold_pace import Pace
from projectionist.runner.jetstream.stream_reader import fetch

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.runner.database.queries import Build, Queries
    from projectionist.runner.decoding.decoder import Decoder
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.jetstream.stream_tail import Tail
    from projectionist.runner.rebuild.shadow import Shadow


class EventsPurged(RebuildError):
    """Events that the live generation has applied are not to be had any more."""

    def __init__(self, lost: Sequence[str]) -> None:
        super().__init__(
            "events that made rows of the live generation are gone from the stream or the inbox: "
            f"{join_first(lost)}",
            remedy="`--partial` goes on without these aggregates; `--restart` reads the stream again from its "
            "beginning, which helps only while the stream still holds them",
        )


class NotEqual(RebuildError):
    """The shadow does not stand where the live generation stands: a fault, and no swap."""


class CatchUp:
    """Rounds for one build."""

    def __init__(
        self,
        queries: Queries,
        build: Build,
        shadow: Shadow,
        client: Client,
        reader: Decoder,
        filter_subject: str,
        progress: Progress,
    ) -> None:
        self._queries = queries
        self._build = build
        self._shadow = shadow
        self._client = client
        self._reader = reader
        self._filter = filter_subject
        self._progress = progress
        self.unordered = shadow.definition.sequence == UNORDERED
        self.start = first_position(shadow.definition)
        self.silent: Counter[str] = Counter()
        self.folded = 0
        self.pace = Pace()
        self._moved: set[str] | None = None
        """Aggregates that have moved since all of them were compared."""
        self.top = build.bulk_limit
        """The highest sequence that was planned to be folded."""
        self._joins = any(one.joins for one in build.views)

    async def round(self) -> int:
        """Run one round without a lock; return how many events it folded."""
        queries, build = self._queries, self._build
        if await queries.value("has_dirty_marks", build.consumer):
            slot = await self._own_slot()
        else:
            async with queries.alone(build.consumer, "catch up"):
                await queries.hold(build)
                slot = await queries.value("flip_dirty_slot", build.consumer)
        announce("rebuild.flipped")
        events = await self._plan([slot])
        await self._note_moved([slot])
        await self._progress.advance(await self._fold(decisions=await self._decisions()))
        if not self.unordered:
            async with queries.connection.transaction():
                await queries.hold(build)
                await queries.run("delete_dirty_slot", build.consumer, [slot])
        announce("rebuild.round")
        return events

    async def last(self, bound: int, tail: Tail) -> bool:
        """Fold the rest for both slots, inside the caller's transaction and barrier, from what is at hand.

        False if that is not all there is to fold, or if it is too much.
        """
        if await self._plan([0, 1]) > bound or not await self._is_at_hand(tail):
            return False
        await self._note_moved([0, 1])
        await self._fold(await self._decisions(), tail)
        await self._queries.run("delete_dirty_slot", self._build.consumer, [0, 1])
        return True

    async def look(self) -> None:
        """Compare where all aggregates stand, without a lock; what moves from now on is compared at the swap.

        Raises NotEqual where the shadow stands elsewhere than live although nothing has moved.
        """
        self._moved = set()
        self.moved()
        if not self.unordered:
            await self._compare("select_position_mismatches")

    def moved(self) -> Mapping[int, AbstractSet[Any]]:
        """Return the keys of the rows that were written since `look`, or since this was asked, by view."""
        return self._shadow.moved_since()

    async def assert_equal(self) -> None:
        """Raise NotEqual unless the shadow stands where live does, in every aggregate that has moved since `look`."""
        if self._moved:
            await self._compare("select_position_mismatches_of", sorted(self._moved))

    async def _compare(self, statement: str, *moved: object) -> None:
        build = self._build
        differs = await self._queries.rows(statement, build.consumer, build.positions, self.start, *moved)
        if differs:
            named = ", ".join(f"{r['aggregate']} at v{r['shadow']} and live at v{r['live']}" for r in differs)
            raise NotEqual(
                f"the shadow is at other versions than the live generation: {named}",
                remedy="Rebuild with --restart, and report this: it must not happen",
            )

    async def _note_moved(self, slots: Sequence[int]) -> None:
        if self._moved is not None and not self.unordered:
            rows = await self._queries.rows("select_dirty_marks", self._build.consumer, slots)
            self._moved.update(row["mark"] for row in rows)

    async def _is_at_hand(self, tail: Tail) -> bool:
        planned = await self._queries.rows("select_planned_sequences", self._build.number)
        return await tail.these([row["seq"] for row in planned]) is not None

    async def _own_slot(self) -> int:
        row = await self._queries.row("select_control_row", self._build.consumer)
        assert row is not None, "consumers are never deleted"
        return int(1 - row["slot"])

    async def _decisions(self) -> Decisions:
        """Read after the plan: those it needs were made before the positions it saw."""
        return Decisions(await self._queries.rows("select_decisions", self._build.consumer))

    async def _plan(self, slots: Sequence[int]) -> int:
        queries, build = self._queries, self._build
        async with queries.connection.transaction():
            await queries.hold(build)
            await queries.run("delete_catch_up_plan", build.number)
            if self.unordered:
                await queries.run("plan_catch_up_unordered", build.number, build.consumer, slots)
            else:
                given = (build.number, build.consumer, slots, build.incarnation, build.positions, self.start)
                await queries.run("plan_catch_up", *given)
            planned = await queries.row("count_catch_up_events", build.number)
            assert planned is not None, "it counts"
            if self._joins:
                await queries.run("raise_build_top", build.number, planned["top"])
        self.top = max(self.top, planned["top"])
        return int(planned["many"])

    async def _fold(self, decisions: Decisions, tail: Tail | None = None) -> int:
        """Fold the plan, window by window; each commits rows, positions and, without order, marks."""
        queries, build, at, total = self._queries, self._build, 0, 0
        tally = _Tally(self._shadow.definition.sequence == CONTIGUOUS, decisions)
        while steps := await queries.rows(
            "select_catch_up_steps", build.number, at, self.pace.window(), build.positions, self.start
        ):
            at = steps[-1]["n"]
            deliveries = await self._read([s["seq"] for s in steps if s["seq"] is not None], decisions, tail)
            wanted = tally.judge(steps, deliveries)
            if tally.lost and not build.partial:
                raise EventsPurged(tally.lost)
            began = clock.now()
            async with queries.connection.transaction():
                await queries.hold(build)
                await self._shadow.apply(wanted.fold, self.silent)
                if wanted.positions:
                    names, versions = zip(*sorted(wanted.positions.items()), strict=True)
                    await queries.run("upsert_shadow_positions", build.positions, names, versions)
                if self.unordered:
                    marks = [str(step["seq"]) for step in steps]
                    await queries.run("delete_some_dirty_marks", build.consumer, marks)
            self.pace.took(len(wanted.fold), clock.now() - began)
            announce("rebuild.caught_up")
            total += len(wanted.fold)
        self.folded += total
        return total

    async def _read(
        self, seqs: Sequence[int], decisions: Decisions, tail: Tail | None
    ) -> dict[int, Delivery]:
        """Return the events at these sequences, with the bytes operators gave them."""
        stream = self._shadow.definition.stream
        at_hand = None if tail is None else await tail.these(seqs)
        found = await fetch(self._client, stream, self._filter, seqs) if at_hand is None else at_hand
        one_of = decisions.reading(self._reader)
        read = {seq: one_of(arrival) for seq, arrival in found.items()}
        return {seq: one for seq, one in read.items() if isinstance(one, Delivery)}


class _Window(msgspec.Struct):
    fold: list[Delivery]
    positions: dict[str, int]


class _Tally:
    """Checks that each aggregate's events lead without a hole from where the shadow stands to where live does."""

    def __init__(self, contiguous: bool, decisions: Decisions) -> None:
        self._contiguous = contiguous
        self._decisions = decisions
        self._at: dict[str, int] = {}
        self._given_up: set[str] = set()
        self.lost: list[str] = []

    def judge(self, steps: Sequence[Record], deliveries: dict[int, Delivery]) -> _Window:
        """Return what of a window is folded, and where its aggregates stand then."""
        window = _Window([], {})
        for step in steps:
            aggregate, version, seq = step["aggregate"], step["version"], step["seq"]
            if aggregate is None:
                self._alone(seq, deliveries, window)
                continue
            given_up = aggregate in self._given_up or self._gives_up(step, deliveries)
            if seq is not None and not given_up:
                window.fold.append(deliveries[seq])
            if seq is None or not given_up:
                window.positions[aggregate] = self._at[aggregate] = version
        return window

    def _alone(self, seq: int, deliveries: dict[int, Delivery], window: _Window) -> None:
        if seq in deliveries:
            window.fold.append(deliveries[seq])
        else:
            self.lost.append(f"sequence {seq}")

    def _gives_up(self, step: Record, deliveries: dict[int, Delivery]) -> bool:
        """Return whether this event is gone, or a version between it and the one before is not stepped over."""
        aggregate, seq = step["aggregate"], step["seq"]
        at = self._at.setdefault(aggregate, step["at"])
        upto = step["version"] if seq is None else step["version"] - 1
        whole = not self._contiguous or self._decisions.count(aggregate, at, upto) == upto - at
        if whole and (seq is None or seq in deliveries):
            return False
        self._given_up.add(aggregate)
        self.lost.append(f"{aggregate} from v{at + 1}")
        return True

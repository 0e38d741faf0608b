"""Verbs on many parked events: each compared with what was seen, a sample before a group, at a rate, twice harmless."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from projectionist.core import clock
from projectionist.core.operator import NotThere, TooLate
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.runner.admin.parked_actions import ParkedActions
from projectionist.runner.batch.batch_session import store_of

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.admin.parked_queries import ParkedEntry

SAMPLE = 5
"""How many of a group are tried before the rest."""
POLL_S = 0.1

T = TypeVar("T")
One = Callable[[ParkedActions, "ParkedEntry"], Awaitable[None]]


class BulkResult(msgspec.Struct):
    """The events that were acted on, and those that could not be: the event's id and why."""

    changed: list[str] = []
    unchanged: dict[str, str] = {}
    left: int = 0
    """How many of the chosen were not touched."""
    note: str = ""
    """Why they were not."""


class BulkHandling:
    """Does one thing to several parked events over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str, act: Act, *, rate: float) -> None:
        self._connection = connection
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._act = act
        self._rate = rate

    async def retry(self, chosen: Sequence[ParkedEntry]) -> BulkResult:
        """Try all of these again now."""
        return await self._each(chosen, self._retry)

    async def retry_groups(self, chosen: Sequence[ParkedEntry], *, within_s: float) -> BulkResult:
        """Try a few of each group of failures that are alike, and all the rest once one of them has got through.

        A rest is left where none has, or none was tried within `within_s`, since no process runs the consumer.
        """
        groups: dict[tuple[int, str], list[ParkedEntry]] = {}
        for one in chosen:
            groups.setdefault((one.consumer, one.why), []).append(one)
        done = BulkResult()
        for group in groups.values():
            done = _both(done, await self._group(group, within_s))
        return done

    async def _group(self, group: Sequence[ParkedEntry], within_s: float) -> BulkResult:
        sample = group[:SAMPLE] if group[0].cause == "failed" else ()
        rest = group[len(sample) :]
        done = await self._each(sample, self._retry)
        name = _by_id(sample)
        tried = [one for one in sample if name(one) not in done.unchanged]
        if tried and rest and (why := await self._judged(tried, within_s)):
            done.left, done.note = len(rest), why
            return done
        return _both(done, await self._each(rest, self._retry))

    async def skip(self, chosen: Sequence[ParkedEntry]) -> BulkResult:
        """Step over these heads for good."""

        async def skip(verbs: ParkedActions, one: ParkedEntry) -> None:
            if one.ordered and one.aggregate is not None:
                _refuse_follower(one)
                await verbs.skip(one.aggregate, self._act, seen=one.seen)
            else:
                await verbs.discard((one.source, one.id), self._act)

        return await self._each(chosen, skip)

    async def discard(self, chosen: Sequence[ParkedEntry]) -> BulkResult:
        """Drop these events for good."""
        return await self._each(chosen, lambda verbs, one: verbs.discard((one.source, one.id), self._act))

    async def accept_gap(self, chosen: Sequence[tuple[ParkedEntry, int, int]]) -> BulkResult:
        """Step over these missing versions (the first parked event behind them, first, last) for good."""
        lacks = {(one.consumer, one.aggregate): (first, last) for one, first, last in chosen}

        async def accept(verbs: ParkedActions, one: ParkedEntry) -> None:
            await verbs.accept_gap(one.place, *lacks[one.consumer, one.aggregate], self._act)

        return await self._each([one for one, _, _ in chosen], accept)

    async def edit(self, one: ParkedEntry, data: bytes, digest: bytes) -> BulkResult:
        """Give one event other bytes."""
        return await self._each(
            [one], lambda verbs, it: verbs.edit((it.source, it.id), data, digest, self._act)
        )

    async def _retry(self, verbs: ParkedActions, one: ParkedEntry) -> None:
        if one.ordered and one.aggregate is not None:
            _refuse_follower(one)
            await verbs.retry(one.aggregate, self._act, seen=one.seen)
        else:
            await verbs.retry_entry((one.source, one.id), self._act, attempts=one.attempts)

    async def _each(self, chosen: Sequence[ParkedEntry], do: One) -> BulkResult:
        def verbs(one: ParkedEntry) -> ParkedActions:
            return ParkedActions(store_of(self._connection, self._schema, one.consumer))

        return await paced(chosen, lambda one: do(verbs(one), one), name=_by_id(chosen), rate=self._rate)

    async def _judged(self, sample: Sequence[ParkedEntry], within_s: float) -> str:
        """Return "" if one of the sample has got through, else why the rest is left."""
        until, consumer = clock.now() + within_s, sample[0].consumer
        columns = list(zip(*((one.source, one.id, one.attempts) for one in sample), strict=True))
        while True:
            row = await self._connection.fetchrow(self._sql["select_sample_outcome"], consumer, *columns)
            mended, still_open = (False, False) if row is None else (row["mended"], row["open"])
            if mended:
                return ""
            if not still_open:
                return f"all {len(sample)} of the sample failed again, so the rest was left alone"
            if clock.now() >= until:
                return f"none of the sample was tried within {within_s:g} s: is the consumer running?"
            await asyncio.sleep(POLL_S)


def named(things: Sequence[T], short: Callable[[T], str], whole: Callable[[T], str]) -> Callable[[T], str]:
    """Return how each of these is told: in short, or as a whole where several are the same in short."""
    times = Counter(map(short, things))
    return lambda one: short(one) if times[short(one)] < 2 else whole(one)


def _by_id(chosen: Sequence[ParkedEntry]) -> Callable[[ParkedEntry], str]:
    return named(chosen, lambda one: one.id, lambda one: f"{one.id} of {one.source} ({one.name})")


async def paced(
    things: Sequence[T], do: Callable[[T], Awaitable[None]], *, name: Callable[[T], str], rate: float
) -> BulkResult:
    """Do one thing to each, at most so many a second; what the verbs refuse is told by its name."""
    done, begun = BulkResult(), clock.now()
    for number, one in enumerate(things):
        if (early := number / rate - (clock.now() - begun)) > 0:
            await asyncio.sleep(early)
        try:
            await do(one)
            done.changed.append(name(one))
        except (TooLate, NotThere) as refused:
            done.unchanged[name(one)] = str(refused)
    announce("verbs.done")
    return done


def _both(one: BulkResult, other: BulkResult) -> BulkResult:
    return BulkResult(
        one.changed + other.changed,
        one.unchanged | other.unchanged,
        one.left + other.left,
        one.note or other.note,
    )


def _refuse_follower(one: ParkedEntry) -> None:
    if not one.heads:
        raise NotThere(
            f"event {one.id!r} waits in the order of {one.aggregate}, which is {one.head}",
            remedy=f"Act on what it waits for: `projectionist parked list --aggregate {one.aggregate} --each`",
        )

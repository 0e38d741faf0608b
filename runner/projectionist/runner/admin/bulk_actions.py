"""Verbs on several parked events: each compared with what was seen, at a rate, twice harmless."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from projectionist.core import clock
from projectionist.core.operator import NotThere, TooLate
from projectionist.core.testpoints import announce
from projectionist.runner.admin.parked_actions import ParkedActions
from projectionist.runner.batch.batch_session import store_of

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.admin.parked_queries import ParkedEntry

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
        self._act = act
        self._rate = rate

    async def retry(self, chosen: Sequence[ParkedEntry]) -> BulkResult:
        """Try all of these again now."""
        return await self._each(chosen, self._retry)

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


def _refuse_follower(one: ParkedEntry) -> None:
    if not one.heads:
        raise NotThere(
            f"event {one.id!r} waits in the order of {one.aggregate}, which is {one.head}",
            remedy=f"Act on what it waits for: `projectionist parked list --aggregate {one.aggregate} --each`",
        )

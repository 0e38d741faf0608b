"""Records what real relays read and write, and looks for a way through the model in which they do just that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.model.relay_model import Relays, named
from tests.model.relay_world import Faults, Relay, Row, World

from projectionist.outbox.providers.profiles import Profile
from projectionist.outbox.relay.intent_store import IntentStore, LeasedIntent

STATEMENTS = ("leases", "starts", "misses", "settles")
"""The steps of the model that a statement takes; all others happen in a process, at the provider, or to everybody."""
BOUNDS = Faults(silences=9, refusals=9, absences=9, sleeps=9)


class Recorded(NamedTuple):
    """A statement of a real relay on one intent."""

    step: str
    """As the model calls it."""
    intent: int
    attempt: int
    spent: int
    state: str
    """That it has read, or was to write."""
    tried: bool
    """Whether the clock of the provider's memory runs afterwards."""
    doubted: bool = False
    counts: bool = True
    """A reply: that it was for the attempt that the row was at."""


class Recording:
    """The statements of each lease in their order, one lease after the other in as many places as there were at once.

    A place is what the model calls a relay: it has one intent in hand, or none.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = list(keys)
        """Of the intents, in the order in which the model numbers them."""
        self.places: list[list[Recorded]] = []
        self.in_hand: dict[tuple[UUID, str], int] = {}
        """The place of each lease that is not done with."""

    def note(self, step: str, one: LeasedIntent, **told: Any) -> None:
        """Note a statement on an intent. Its lease takes the first free place, until a reply, or a missed start."""
        lease = one.token, one.request.key
        if step == "leases":
            at = next(n for n in count() if n not in self.in_hand.values())
            self.places += [[]] if at == len(self.places) else []
            self.in_hand[lease] = at
        what = {"attempt": one.attempt, "spent": one.spent, "doubted": one.doubted, **told}
        self.places[self.in_hand[lease]].append(Recorded(step, self.keys.index(one.request.key), **what))
        if step in ("misses", "settles"):
            del self.in_hand[lease]


@contextmanager
def recording(patch: pytest.MonkeyPatch, keys: Sequence[str]) -> Iterator[Recording]:
    """Record what relays do with these intents that run inside of the block."""
    told = Recording(keys)
    lease, start, settle = IntentStore.lease, IntentStore.start, IntentStore.settle

    async def recorded_lease(self: IntentStore, *given: Any, **named: Any) -> Any:
        found = await lease(self, *given, **named)
        for one in found.leased:
            told.note("leases", one, state=one.state, tried=one.since_first_s is not None)
        return found

    async def recorded_start(self: IntentStore, batch: Any, horizon_s: Any) -> Any:
        begun = await start(self, batch, horizon_s)
        sent = {one.seq for one in begun}
        for one in batch:
            told.note("starts" if one.seq in sent else "misses", one, state="started", tried=True)
        return begun

    async def recorded_settle(self: IntentStore, batch: Any, memory_s: Any) -> Any:
        known = await settle(self, batch, memory_s)
        for one in batch:
            after = {"state": one.next.state, "spent": one.next.spent, "tried": not one.next.forget}
            told.note("settles", one.leased, counts=one.leased.seq in known, **after)
        return known

    with patch.context() as hooks:
        hooks.setattr(IntentStore, "lease", recorded_lease)
        hooks.setattr(IntentStore, "start", recorded_start)
        hooks.setattr(IntentStore, "settle", recorded_settle)
        yield told


def ways_through(
    profile: Profile, places: Sequence[Sequence[Recorded]], intents: int, ticks: int
) -> set[World]:
    """Return where the model can be when all of it has happened; nowhere: it does not allow it. `ticks`: how often the
    time of all leases has passed."""
    model = Relays(profile, BOUNDS, intents=intents, relays=len(places))
    begun = (model.model().start, (0,) * len(places), 0)
    seen, open_, ends = {begun}, [begun], set()
    while open_:
        world, done, ticked = open_.pop()
        if all(at == len(place) for at, place in zip(done, places, strict=True)):
            ends.add(world)
        for label, after in model.steps(world):
            word, *rest = label.split()
            came, passed = done, ticked + (word == "ticks")
            if word in STATEMENTS:
                at = int(rest[0])
                real = places[at][done[at]] if done[at] < len(places[at]) else None
                if real is None or real.step != word or not _agrees(world, after, at, real):
                    continue
                came = (*done[:at], done[at] + 1, *done[at + 1 :])
            if passed <= ticks and (state := (after, came, passed)) not in seen:
                seen.add(state)
                open_.append(state)
    return ends


def _agrees(before: World, after: World, at: int, real: Recorded) -> bool:
    """Compare a step of the model with what the real relay has read or written by the same statement."""
    row, relay = after.rows[real.intent], after.relays[at]
    if real.step == "leases":
        found = relay.intent, relay.attempt, relay.spent, row.state, row.age >= 0, relay.doubted
    elif real.step == "starts":
        found = relay.intent, relay.attempt, relay.spent, row.state, True, row.doubted
    elif real.step == "misses":  # it has counted the attempt in its process alone
        had = before.relays[at]
        found = had.intent, had.attempt + 1, had.spent + 1, real.state, True, had.doubted
    else:
        return _settles_alike(before.relays[at], before.rows[real.intent], row, real)
    return found == (real.intent, real.attempt, real.spent, real.state, real.tried, real.doubted)


def _settles_alike(relay: Relay, row: Row, after: Row, real: Recorded) -> bool:
    step = relay.next
    assert step is not None
    found = relay.intent, relay.attempt, step.spent, step.state, not step.forget
    return (
        found == (real.intent, real.attempt, real.spent, real.state, real.tried)
        and (after != row) == real.counts
    )


def told_of(world: World) -> list[tuple[str, int]]:
    """Return the state of each intent, and how often the provider has executed it."""
    return [(row.state, world.stream.count(named(number))) for number, row in enumerate(world.rows)]

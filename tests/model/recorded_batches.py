"""Records what real batches read and decide, and looks for a way through the model in which they do just that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest
from tests.model.batch_model import Batches
from tests.model.batch_world import Event, Place, Scenario, Tx, World

from projectionist.core.states import InboxState
from projectionist.runner.batch.transaction import Transaction


class Attempt(msgspec.Struct):
    """One run of a real batch, as far as it came."""

    given: frozenset[str]
    """The identities of its deliveries."""
    claimed: frozenset[str] = frozenset()
    locked: Mapping[str, Place] = {}
    moved: Mapping[str, Place] = {}
    applied: frozenset[str] = frozenset()
    parked: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    committed: bool = False


_RUNNING: ContextVar[Attempt] = ContextVar("the run that this task is inside")


@contextmanager
def recording(patch: pytest.MonkeyPatch) -> Iterator[list[Attempt]]:
    """Record each run of a batch inside of the block, in the order in which they began."""
    attempts: list[Attempt] = []
    run, claim, lock = Transaction._run, Transaction._claim, Transaction._positions

    async def recorded_run(self: Transaction) -> Any:
        mine = Attempt(frozenset(one.id for one in self.batch.deliveries))
        attempts.append(mine)
        _RUNNING.set(mine)
        answer = await run(self)
        mine.moved = {m.aggregate: Place(m.version, m.head, m.parked) for m in self.writes.moved}
        mine.parked = frozenset(one.delivery.id for one in self.writes.parked)
        settled = self.writes.settled
        mine.stale = frozenset(
            one.id for (state, _), row in settled.items() for one in row if state == "stale"
        )
        drained = {
            one.id for (state, _), row in settled.items() for one in row if state == InboxState.APPLIED
        }
        mine.applied = (mine.claimed | drained) - mine.parked - mine.stale
        mine.committed = True
        return answer

    async def recorded_claim(self: Transaction, deliveries: Any) -> Any:
        fresh = await claim(self, deliveries)
        _RUNNING.get().claimed = frozenset(one.id for one in fresh)
        return fresh

    async def recorded_lock(self: Transaction, aggregates: Any) -> Any:
        rows = await lock(self, aggregates)
        places = {one.aggregate: Place(one.version, one.head, one.parked) for one in rows}
        _RUNNING.get().locked = places
        return rows

    with patch.context() as hooks:
        hooks.setattr(Transaction, "_run", recorded_run)
        hooks.setattr(Transaction, "_claim", recorded_claim)
        hooks.setattr(Transaction, "_positions", recorded_lock)
        yield attempts


class Replay:
    """Takes recorded batches through the model; `identities` and `names` are those of its events and aggregates."""

    def __init__(
        self, events: Sequence[Event], identities: Sequence[str], names: Sequence[str], drain: int
    ) -> None:
        self._events, self._identities, self._names, self._drain = tuple(events), identities, names, drain

    def settle(self, world: World, attempts: Sequence[Attempt]) -> World | None:
        """Return the world after batches that ran beside each other; None: the model allows no such way."""
        kept = [one for one in attempts if one.committed]
        given = [tuple(self._identities.index(name) for name in sorted(one.given)) for one in kept]
        scenario = Scenario(
            events=self._events, batches=tuple(enumerate(given)), drain=self._drain, shared=False
        )
        steps = Batches(scenario).steps
        begun = world._replace(batches=(Tx(),) * len(kept), epochs=(0,) * len(kept), acked=frozenset())
        seen, open_ = {begun}, [begun]
        while open_:
            state = open_.pop()
            if all(tx.at == "acks" for tx in state.batches):
                return state
            for label, after in steps(state):
                word, _, at = label.partition(" ")
                if word == "acks" or after in seen or not self._agrees(word, state.batches, int(at), kept):
                    continue
                seen.add(after)
                open_.append(after)
        return None

    def acts(self, world: World) -> Iterator[tuple[str, World]]:
        """Return what a person may do now."""
        scenario = Scenario(events=self._events, batches=((0, ()),), person=True)
        return Batches(scenario).steps(world._replace(batches=(Tx(at="done"),)))

    def _agrees(self, word: str, batches: Sequence[Tx], index: int, kept: Sequence[Attempt]) -> bool:
        """Compare a step of the model with what the real batch has read or written at that point."""
        tx, real = batches[index], kept[index]
        if word == "claimed":
            return self._named(tx.fresh) == real.claimed
        if word == "locked":
            locked = {self._names[aggregate]: place or Place() for aggregate, place in tx.locked}
            return locked == real.locked
        if word == "commits":
            before = dict(tx.locked)
            moved = {
                self._names[a]: one.place
                for a, one in tx.decided
                if one.applied or one.parked or one.place != (before[a] or Place())
            }
            return moved == real.moved and all(
                self._of(tx, field) == getattr(real, field) for field in ("applied", "parked", "stale")
            )
        return True

    def _of(self, tx: Tx, field: str) -> frozenset[str]:
        decided = {(a, version) for a, one in tx.decided for version in getattr(one, field)}
        return self._named(
            {at for at, one in enumerate(self._events) if (one.aggregate, one.version) in decided}
        )

    def _named(self, numbers: set[int] | frozenset[int]) -> frozenset[str]:
        return frozenset(self._identities[number] for number in numbers)

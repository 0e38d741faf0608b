"""Carries an operation out, sample by sample, as long as nobody else does: each step is a transaction that only its
owner gets through, and whoever takes an operation up goes on with the first item that is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from projectionist.core import clock
from projectionist.core.operator import NotThere, TooLate
from projectionist.core.postgres.error_text import said
from projectionist.core.states import ItemState, OperationOutcome
from projectionist.core.testpoints import announce
from projectionist.runner.operations.operation import CARRIED_S, OperationReport, SampleStep, next_step
from projectionist.runner.operations.operation_store import StopRequested, lent_store

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Postgres
    from projectionist.runner.operations.operation import SampleStanding
    from projectionist.runner.operations.operation_store import Grant, OperationItem, OperationStore

    Do = Callable[[OperationItem], Awaitable[None]]
    Told = Callable[[OperationReport], object]

LOOKED_S = 0.25
"""How often it is looked what became of what was tried: three statements."""
BEAT_S = CARRIED_S / 5
"""How long it is without a sign of life at most."""
ITEMS = 100
"""So many items are known at a time; after each so many it is looked what became of those before."""
LAST_WORD_S = 5.0
NOBODY_TRIED = "{} were not tried within {:g} s: is the consumer running?"
LEFT = "none of a sample got through, so the rest of its group was left alone"


class Carrier:
    """Does one thing to each item of an operation."""

    def __init__(self, store: OperationStore, grant: Grant, do: Do, told: Told) -> None:
        """Take what does it to one item inside a transaction, and who is told how far it is."""
        self._store, self._grant, self._do, self._told = store, grant, do, told
        self._next = clock.now()

    async def run(self) -> OperationReport:
        """Carry it out to its end, or until it is to stop; return how it ended. Raises OperationLost."""
        try:
            await self._carry_out()
        except StopRequested as asked:
            await self._store.end(self._grant, OperationOutcome.STOPPED, str(asked))
        return await self._store.show(self._grant.number)

    async def _carry_out(self) -> None:
        found = await self._store.show(self._grant.number)
        left, tried_by = False, clock.now() + found.patience_s
        while (step := next_step(at := await self._store.standing(self._grant))) is not SampleStep.END:
            assert at is not None, "without a standing it has ended"
            match step:
                case SampleStep.LEAVE:
                    left = True
                    async with self._store.step(self._grant):
                        await self._store.leave(self._grant, at)
                case SampleStep.ACT:
                    await self._act(at, found.rate)
                    await self._judge()
                    tried_by = clock.now() + found.patience_s
                case SampleStep.LOOK if await self._judge():
                    tried_by = clock.now() + found.patience_s
                case SampleStep.LOOK if clock.now() >= tried_by:
                    note = NOBODY_TRIED.format(f"{at.tried:,}", found.patience_s)
                    await self._store.end(self._grant, OperationOutcome.UNTRIED, note)
                    return
                case _:
                    await asyncio.sleep(LOOKED_S)
        outcome = OperationOutcome.NONE_GOT_THROUGH if left else OperationOutcome.DONE
        await self._store.end(self._grant, outcome, LEFT if left else None)

    async def _act(self, at: SampleStanding, rate: float) -> None:
        for item in await self._store.waiting(self._grant, at, ITEMS):
            await self._paced(rate)
            async with self._store.step(self._grant):
                state, note = await self._done(item)
                await self._store.set_state(self._grant, item, state, note)
                announce("operation.acting")

    async def _done(self, item: OperationItem) -> tuple[ItemState, str | None]:
        try:
            async with self._store.connection.transaction():
                await self._do(item)
        except (TooLate, NotThere) as refused:
            return ItemState.REFUSED, str(refused)
        except asyncpg.LockNotAvailableError:
            return ItemState.REFUSED, "it was in use for too long"
        return (ItemState.TRIED if item.judged else ItemState.DONE), None

    async def _judge(self) -> int:
        async with self._store.step(self._grant):
            judged = await self._store.judge(self._grant)
        announce("operation.judged")
        if judged:
            self._told(await self._store.show(self._grant.number))
        return judged

    async def _paced(self, rate: float) -> None:
        """Wait for the next item's turn, and give signs of life meanwhile."""
        while (early := self._next - clock.now()) > 0:
            if early > BEAT_S:
                async with self._store.step(self._grant):
                    pass
            await asyncio.sleep(min(early, BEAT_S))
        self._next = max(self._next, clock.now()) + 1 / rate


@asynccontextmanager
async def last_word(
    postgres: Postgres, grant: Grant, *, interrupted: OperationOutcome | None
) -> AsyncIterator[None]:
    """Have the row say why it is not carried out any more, where what is inside ends early.

    It is said over a connection of its own: what was interrupted may have been a statement. `interrupted` is how an
    operation ends then; None: another process may take it up.
    """
    try:
        yield
    except asyncio.CancelledError:
        await _said(postgres, grant, "interrupted", interrupted)
        raise
    except Exception as error:
        await _said(postgres, grant, said(error), None)
        raise


async def _said(postgres: Postgres, grant: Grant, note: str, outcome: OperationOutcome | None) -> None:
    """Say it if the database can be had; without a word the row says since when nobody carries it out."""
    try:
        async with asyncio.timeout(LAST_WORD_S), lent_store(postgres) as store:
            if outcome is None:
                await store.let_go(grant, note)
            else:
                await store.end(grant, outcome, note)
    except Exception:  # noqa: BLE001 - who ends for one reason says that, and no other
        announce("operation.silent")

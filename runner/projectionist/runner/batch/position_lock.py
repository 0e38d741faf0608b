"""A short transaction that holds some positions of a consumer, as a batch would: for what happens beside batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore


@asynccontextmanager
async def lock_positions(
    store: InboxStore, consumer: Consumer, aggregates: Iterable[str]
) -> AsyncIterator[list[Record]]:
    """Hold the positions of these aggregates; raises Superseded or Paused as a batch does."""
    async with entered(store, consumer):
        yield await store.positions(sorted(set(aggregates)))


@asynccontextmanager
async def entered(store: InboxStore, consumer: Consumer) -> AsyncIterator[None]:
    """Hold no position yet, in a transaction that is begun as a batch's is; raises the same."""
    async with store.connection.transaction():
        await store.enter()
        consumer.check(await store.control())
        yield

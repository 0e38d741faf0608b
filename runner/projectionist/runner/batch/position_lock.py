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
    async with store.connection.transaction():
        await store.enter()
        consumer.check(await store.control())
        yield await store.positions(sorted(set(aggregates)))

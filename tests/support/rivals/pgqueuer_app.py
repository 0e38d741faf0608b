"""pgqueuer's contender, FastStream's outbox: sends each receipt with the order as its key until it is answered."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

import asyncpg
import httpx
from pgqueuer import PgQueuer
from pgqueuer.executors import DatabaseRetryEntrypointExecutor
from pgqueuer.models import Job
from tests.support.rivals.faststream_app import ENQUEUED
from tests.support.rivals.ground import RETRY_S, SILENCE_S, told

PROVIDER_S = 5.0
TRIES = 1_000


async def main() -> None:
    """Send until the process is ended."""
    ground = told()
    connection = await asyncpg.connect(ground.database)
    queue = PgQueuer.from_asyncpg_connection(connection)
    soon = timedelta(seconds=RETRY_S)
    again = partial(DatabaseRetryEntrypointExecutor, max_attempts=TRIES, initial_delay=soon, max_delay=soon)
    async with httpx.AsyncClient(timeout=PROVIDER_S) as client:

        @queue.entrypoint(ENQUEUED, on_failure="hold", executor_factory=again)
        async def receipt(job: Job) -> None:
            assert job.payload is not None
            headers = {"idempotency-key": job.payload.decode(), "content-type": "application/json"}
            answer = await client.post(ground.provider, content=job.payload, headers=headers)
            answer.raise_for_status()

        await queue.run(
            dequeue_timeout=timedelta(seconds=1),
            heartbeat_timeout=timedelta(seconds=SILENCE_S),
            shutdown_on_listener_failure=True,
        )


if __name__ == "__main__":
    asyncio.run(main())

"""The peer of `bench relay`: pgqueuer, as many jobs that do nothing, in the same database. Says how long it took."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.bench import plain
from projectionist.bench.scene import told

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings

BATCH = 50
"""As fast as any of 10, 50, 100, 250, 500 and 1,000 where this was written."""

AT_ONCE = 5000


async def work(settings: Settings) -> None:
    """Install it into the scene's schema, put the jobs in, do them, say how long that took."""
    os.environ["PGQUEUER_SCHEMA"] = told().schema
    # It reads its names from the environment when it is imported.
    from pgqueuer import PgQueuer, Queries  # noqa: PLC0415
    from pgqueuer.models import Job  # noqa: PLC0415
    from pgqueuer.types import QueueExecutionMode  # noqa: PLC0415

    assert settings.postgres.url is not None
    connection = await asyncpg.connect(settings.postgres.url.reveal())
    queries = Queries.from_asyncpg_connection(connection)
    await queries.install()
    jobs = int(sys.argv[1])
    for begin in range(0, jobs, AT_ONCE):
        count = min(AT_ONCE, jobs - begin)
        await queries.enqueue(["nothing"] * count, [b"x" * int(sys.argv[2])] * count, [0] * count)
    queue = PgQueuer.from_asyncpg_connection(connection)

    @queue.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        """Do what the job does: nothing."""

    began = time.perf_counter()
    await queue.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    took = time.perf_counter() - began
    sys.stdout.write(msgspec.json.encode({"seconds": took}).decode() + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    plain.main(work)

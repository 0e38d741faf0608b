"""One trial: a contender under one hardship, its processes started again as a platform would, and a judgement."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import asyncpg
import msgspec
import nats
from nats.aio.client import Client
from tests.support.consumer_harness import headers_of
from tests.support.rivals.contenders import Contender
from tests.support.rivals.ground import RivalGround
from tests.support.rivals.load import Found, Hardship, RivalOrder, Sent, judge, messages, orders
from tests.support.servers import Servers, own_ground
from tests.support.stub_provider import (
    Line,
    Seen,
    Step,
    StubProvider,
    execute,
    execute_then_reset,
    stub_provider,
)
from tests.support.waiting import cancelled

WRITER = "tests.support.rivals.eventsourcing_app"
PACE_S, KILL_EVERY_S, AGAIN_S, LOOK_S = 0.05, 1.5, 0.2, 0.5
LOST_EVERY, REFUSED_EVERY, MOST_REQUESTS = 7, 11, 100_000
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, nats.errors.Error)


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial has shown."""

    contender: str
    hardship: str
    orders: int
    begun: Found
    """When the load, the kills and the first release were over and it had had its time to recover."""
    found: Found
    """In the end, when a release that digests everything had had the same time."""
    recovered_s: float | None
    """From the end of the hardships, the release with them, until all was well; None: it never was."""
    killed: int
    ended: int
    """How often a process ended by itself."""


class RivalFleet:
    """The processes of a contender: each is started again where it ends."""

    def __init__(self, contender: Contender, ground: RivalGround, folder: Path) -> None:
        self._contender, self._ground, self._folder = contender, ground, folder
        self._running: list[Process | None] = [None] * len(contender.commands)
        self._keepers: list[asyncio.Task[None]] = []
        self.killed = self.ended = 0

    async def begin(self, *, mended: bool = False) -> None:
        """Start all processes, of this release."""
        ground = msgspec.structs.replace(self._ground, mended=mended)
        env = self._contender.environment(ground)
        keep = (self._keep(number, env) for number in range(len(self._running)))
        self._keepers = [asyncio.create_task(one) for one in keep]

    async def _keep(self, number: int, env: dict[str, str]) -> None:
        while True:
            with (self._folder / f"{number}.err").open("ab") as err:
                process = await asyncio.create_subprocess_exec(
                    *self._contender.commands[number],
                    cwd=self._folder,
                    env=env,
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=err,
                )
            self._running[number] = process
            try:
                self.ended += await process.wait() != -signal.SIGKILL
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            await asyncio.sleep(AGAIN_S)

    def kill(self, random: Random) -> None:
        """Kill one of them, unless it has just ended."""
        process = random.choice(self._running)
        if process is not None and process.returncode is None:
            process.kill()
            self.killed += 1

    async def end(self) -> None:
        """End all."""
        await cancelled(*self._keepers)


class RivalTrial:
    """A contender on its ground, from the first event to the judgement."""

    def __init__(
        self,
        servers: Servers,
        contender: Contender,
        hardship: Hardship,
        ground: RivalGround,
        stub: StubProvider,
        folder: Path,
    ) -> None:
        self._servers, self._contender, self._hardship = servers, contender, hardship
        self._ground, self._stub, self._folder = ground, stub, folder
        self._fleet = RivalFleet(contender, ground, folder)

    async def run(self, random: Random, number: int, patience_s: float) -> TrialResult:
        """Publish so many orders under the hardship, have it end, and wait `patience_s` at most for all to be well."""
        hardship, fleet = self._hardship, self._fleet
        made = orders(random, number, hardship)
        if hardship.unsaid:
            self._stub.plan(*(unsaid(n) for n in range(1, MOST_REQUESTS)))
        connection = await asyncpg.connect(self._ground.database)
        try:
            await self._contender.prepare(connection, self._ground, self._folder)
        finally:
            await connection.close()
        await fleet.begin()
        try:
            meddling = asyncio.create_task(self._meddle(Random(random.random())))
            await self._publish(random, made)
            await meddling
            began = time.monotonic()
            begun = await self._well(made, patience_s)
            if hardship.odd:
                await fleet.end()
                began = time.monotonic()
                await fleet.begin(mended=True)
            found = await self._well(made, patience_s)
        finally:
            await fleet.end()
        return TrialResult(
            contender=self._contender.name,
            hardship=hardship.name,
            orders=number,
            begun=begun,
            found=found,
            recovered_s=time.monotonic() - began if found.clean else None,
            killed=fleet.killed,
            ended=fleet.ended,
        )

    async def _meddle(self, random: Random) -> None:
        """Kill processes, then the servers, if that is the hardship."""
        while self._fleet.killed < self._hardship.kills:
            await asyncio.sleep(KILL_EVERY_S * random.uniform(0.5, 1.5))
            self._fleet.kill(random)
        if self._hardship.servers:
            await asyncio.sleep(KILL_EVERY_S)
            self._servers.kill_postgres()
            await asyncio.to_thread(self._servers.up)
            await asyncio.sleep(KILL_EVERY_S)
            self._servers.kill_nats()
            await asyncio.to_thread(self._servers.up)

    async def _publish(self, random: Random, made: Sequence[RivalOrder]) -> None:
        if self._contender.has_own_store:
            await self._write(made)
            return
        client = await nats.connect(self._ground.nats, max_reconnect_attempts=-1, reconnect_time_wait=0.2)
        try:
            late: list[Sent] = []
            for burst in messages(random, made, self._hardship):
                for sent in [*late, *burst[:2]]:
                    await self._store(client, sent)
                late = burst[2:]
                await asyncio.sleep(PACE_S)
            for sent in late:
                await self._store(client, sent)
        finally:
            await client.close()

    async def _store(self, client: Client, sent: Sent) -> None:
        order, event = sent.order.name, sent.order.events[sent.version - 1]
        headers = headers_of(event, order, sent.version, id=sent.id)
        while True:
            with suppress(*AWAY):
                subject = f"{self._ground.stream}.order.{order}"
                await client.jetstream().publish(subject, msgspec.json.encode(event), headers=headers)
                return
            await asyncio.sleep(AGAIN_S)

    async def _write(self, made: Sequence[RivalOrder]) -> None:
        """Have the orders stored one by one; where the writer ends it goes on after what it has said is stored."""
        left = list(made)
        while left:
            env = self._contender.environment(self._ground)
            words = (sys.executable, "-m", WRITER, "write")
            writer = await asyncio.create_subprocess_exec(*words, env=env, stdin=PIPE, stdout=PIPE)
            assert writer.stdin is not None
            assert writer.stdout is not None
            with suppress(ConnectionError):
                while left:
                    writer.stdin.write(msgspec.json.encode(left[0]) + b"\n")
                    if await writer.stdout.readline() != b"stored\n":
                        break
                    left.pop(0)
                    await asyncio.sleep(PACE_S)
                writer.stdin.close()
            await writer.wait()

    async def _well(self, made: Sequence[RivalOrder], patience_s: float) -> Found:
        """Return what is there once nothing is wrong, or in the end."""
        ends = time.monotonic() + patience_s
        while True:
            found = None
            with suppress(*AWAY):
                found = await self._look(made)
            if found is not None and (found.clean or time.monotonic() > ends):
                return found
            await asyncio.sleep(LOOK_S)

    async def _look(self, made: Sequence[RivalOrder]) -> Found:
        connection = await asyncpg.connect(self._ground.database)
        try:
            rows = await self._contender.rows(connection)
        finally:
            await connection.close()
        return judge(made, rows, receipts(self._stub))


def receipts(stub: StubProvider) -> Counter[str]:
    """Return how often the provider has really sent the receipt of an order, under whatever key."""
    sent: Counter[str] = Counter()
    for key, times in stub.executions.items():
        sent[json.loads(stub.results[key][0])["order_id"]] += times
    return sent


async def _refuse(_stub: StubProvider, _seen: Seen, line: Line) -> None:
    await line.send(503, {"error": "busy"})


def unsaid(number: int) -> Step:
    """Return what the provider does with a request: some are done and not answered, some are refused."""
    if number % LOST_EVERY == 0:
        return execute_then_reset
    return _refuse if number % REFUSED_EVERY == 0 else execute


async def run_trial(
    servers: Servers, contender: Contender, hardship: Hardship, *, seed: str, number: int, patience_s: float
) -> TrialResult:
    """Have one contender bear one hardship."""
    async with own_ground(servers) as (database, stream), stub_provider() as stub:
        with tempfile.TemporaryDirectory() as folder:
            ground = RivalGround(
                database=database, nats=servers.nats_url, stream=stream.name, provider=stub.url()
            )
            trial = RivalTrial(servers, contender, hardship, ground, stub, Path(folder))
            return await trial.run(Random(f"{seed}/{hardship.name}"), number, patience_s)

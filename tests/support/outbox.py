"""A harness for the relay: intents by plain SQL, a provider that obeys a script and keeps a ledger, the real relay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, ClassVar

import asyncpg
import msgspec
from tests.support.servers import SCHEMA
from tests.support.waiting import HANG_S, cancelled, eventually

from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres, Settings
from projectionist.outbox.intents.keys import body_hash
from projectionist.outbox.providers import (
    Outcome,
    Profile,
    Provider,
    ProviderContext,
    ProviderSettings,
    Reply,
    Request,
)
from projectionist.outbox.providers.profiles import NONE
from projectionist.outbox.providers.settings import ProviderRetry
from projectionist.outbox.relay.relay import Relay

REMEMBERS = msgspec.structs.replace(NONE, name="remembers", memory_s=86_400.0)
FORGETS = NONE

FAST = ProviderRetry(initial_s=0.01, maximum_s=0.05)
SLOW = ProviderRetry(initial_s=600, maximum_s=600)

Step = Callable[["Scripted", Request], Awaitable[Reply]]


class Scripted(Provider):
    """Executes each key once, as a provider that remembers keys does, unless its script says otherwise.

    The ledger is the class's own: it outlives the relay, as an outside system would.
    """

    executions: ClassVar[Counter[str]]
    sent: ClassVar[list[Request]]
    script: ClassVar[dict[str, list[Step]]]
    in_flight: ClassVar[Counter[str]]
    most_in_flight: ClassVar[Counter[str]]

    async def send(self, request: Request) -> Reply:
        """The next step of the script for this key, else success."""
        self.sent.append(request)
        lane = request.aggregate or request.key
        self.in_flight[lane] += 1
        self.most_in_flight[lane] = max(self.most_in_flight[lane], self.in_flight[lane])
        try:
            steps = self.script.get(request.key) or self.script.get("*") or []
            return await (steps.pop(0) if steps else execute)(self, request)
        finally:
            self.in_flight[lane] -= 1


def scripted(profile: Profile = REMEMBERS) -> type[Scripted]:
    """A provider class with a ledger of its own."""

    class Fresh(Scripted):
        executions = Counter()
        sent = []
        script = {}
        in_flight = Counter()
        most_in_flight = Counter()

    Fresh.profile = profile
    return Fresh


async def execute(provider: Scripted, request: Request) -> Reply:
    """Do it, once a key where the profile remembers keys."""
    replayed = bool(provider.executions[request.key]) and provider.profile.memory_s is not None
    if not replayed:
        provider.executions[request.key] += 1
    await asyncio.sleep(0)
    return Reply(outcome=Outcome.SENT, status="200", provider_id=f"p-{request.key[:6]}", replayed=replayed)


def answer(outcome: Outcome, **fields: Any) -> Step:
    """Do nothing but answer."""

    async def step(_: Scripted, __: Request) -> Reply:
        return Reply(outcome=outcome, **fields)

    return step


async def execute_in_silence(provider: Scripted, request: Request) -> Reply:
    """Do it, and let the answer be lost."""
    await execute(provider, request)
    return Reply(outcome=Outcome.UNKNOWN, reason="no answer")


def held_until(gate: asyncio.Event) -> Step:
    """Do it, but answer only when the gate opens."""

    async def step(provider: Scripted, request: Request) -> Reply:
        reply = await execute(provider, request)
        await gate.wait()
        return reply

    return step


class Outbox:
    """Intents in one database, and what became of them."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], url: str) -> None:
        self.connection = connection
        self.settings = Settings(postgres=Postgres(url=Url(url)))
        self._numbers = count(1)

    async def want(
        self,
        provider: str = "stub",
        *,
        lane: str | None = None,
        destination: str | None = None,
        on_dead: str = "pass",
        body: dict[str, Any] | None = None,
        consumer: int = 0,
        name: str = "Receipt",
    ) -> str:
        """Write one intent, as a consumer's batch would; its key."""
        number = next(self._numbers)
        content = msgspec.json.encode(body or {"n": number}, order="sorted")
        key: str = await self.connection.fetchval(
            """with written as (
                insert into projectionist.intents (key, consumer, source, id, aggregate, version, slot, class, provider,
                    destination, ordering, on_dead, body, hash)
                values (md5($1), $2, 'shop', $1, $3, 1, $4, $4, $5, $6, $3, $7, $8, $9)
                returning seq, key, provider, destination, coalesce(ordering, key) as lane
            ), opened as (
                insert into projectionist.outbox (seq, provider, destination, lane, place)
                select seq, provider, destination, lane, seq from written
            )
            select key from written""",
            *(f"event-{number}", consumer, lane, name, provider, destination or provider, on_dead),
            *(content, body_hash(content)),
        )
        return key

    async def row(self, key: str) -> asyncpg.Record:
        """One intent."""
        row = await self.connection.fetchrow(
            """select i.seq, i.key, coalesce(o.state, i.state) as state, coalesce(o.open, false) as open,
                coalesce(o.attempt, i.attempt) as attempt, o.spent, o.wire, o.due, o.token,
                coalesce(o.wire_hash, i.wire_hash) as wire_hash, coalesce(o.error, i.error) as error, i.status,
                i.provider_id, i.settled, i.memory_s, i.ordering, i.destination, i.on_dead, i.class, i.slot
            from projectionist.intents i left join projectionist.outbox o on o.seq = i.seq where i.key = $1""",
            key,
        )
        assert row is not None
        return row

    async def state(self, key: str) -> str:
        """The state of one intent."""
        return str((await self.row(key))["state"])

    async def states(self) -> Counter[str]:
        """Return how many are in which state."""
        rows = await self.connection.fetch(
            "select coalesce(o.state, i.state) as state "
            "from projectionist.intents i left join projectionist.outbox o on o.seq = i.seq"
        )
        return Counter(row["state"] for row in rows)

    async def attempts(self, key: str) -> list[asyncpg.Record]:
        """The history of one intent."""
        seq = (await self.row(key))["seq"]
        return await self.connection.fetch(Statements("projectionist.outbox", SCHEMA)["select_attempts"], seq)

    async def acts(self, action: str) -> int:
        """How many acts of a kind are on record."""
        query = "select count(*) from projectionist.audit where action = $1"
        return int(await self.connection.fetchval(query, action))

    async def becomes(self, key: str, state: str, seconds: float = HANG_S) -> asyncpg.Record:
        """Wait until an intent is in this state."""

        async def reached() -> asyncpg.Record:
            row = await self.row(key)
            assert row["state"] == state, f"{key} is {row['state']} ({row['error']}), not {state}"
            return row

        return await eventually(reached, seconds)

    async def becomes_known(self, key: str, seconds: float = HANG_S) -> None:
        """Wait until this intent is unpacked."""

        async def opened() -> bool:
            found = await self.connection.fetchval(
                "select count(*) from projectionist.intents where key = $1", key
            )
            return bool(found)

        await eventually(opened, seconds)

    async def all_become(self, state: str, seconds: float = HANG_S) -> None:
        """Wait until every intent is in this state."""

        async def reached() -> bool:
            assert set(await self.states()) <= {state}, await self.states()
            return True

        await eventually(reached, seconds)

    async def end_leases(self) -> None:
        """As if the time of every lease had passed."""
        await self.connection.execute(
            "update projectionist.outbox set lease_until = clock_timestamp() where lease_until is not null"
        )

    async def make_due(self) -> None:
        """As if every wait were over."""
        await self.connection.execute("update projectionist.outbox set due = null where due is not null")

    async def age(self, key: str, seconds: float) -> None:
        """As if the first attempt of an intent had been so long ago."""
        await self.connection.execute(
            "update projectionist.outbox set first_started = first_started - make_interval(secs => $2) where seq = $1",
            *((await self.row(key))["seq"], seconds),
        )

    async def destinations(self, table: str) -> list[str]:
        """The providers and destinations that a table knows."""
        rows = await self.connection.fetch(
            f"select provider || ' ' || destination from projectionist.{table}"
        )
        return sorted(name for (name,) in rows)

    @asynccontextmanager
    async def relaying(
        self, *providers: Provider, consumers: tuple[str, ...] = (), **options: float
    ) -> AsyncIterator[Relay]:
        """The real relay in this process, for the length of the block; what it started is settled at its end."""
        relay = Relay({each.name: each for each in providers}, self.settings, consumers, **options)
        task = asyncio.create_task(relay.run())
        try:
            yield relay
            if task.done():
                await task
        finally:
            relay.stop()
            await asyncio.wait({task}, timeout=HANG_S)
            if not task.done():
                await cancelled(task)
                raise AssertionError("the relay did not stop")
            await relay.close()
            for each in providers:
                await each.close()
            await task


def made(
    cls: type[Provider],
    name: str = "stub",
    *,
    settings: ProviderSettings | None = None,
    **fields: Any,
) -> Any:
    """A provider as the relay would build it; `fields` are settings, retries are fast."""
    chosen = settings or cls.Settings(**{"retry": FAST, "timeout_s": 5.0, **fields})
    return cls(name, chosen, ProviderContext(environ={}))


@asynccontextmanager
async def outbox(database: str) -> AsyncIterator[Outbox]:
    """A harness on one migrated database."""
    connection = await asyncpg.connect(database)
    try:
        yield Outbox(connection, database)
    finally:
        await connection.close()

"""A schedule whose clock is the test's: wishes, cancels, openers a step at a time, and time that passes."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec
from tests.support.outbox import Outbox, outbox

from projectionist.core.postgres.statements import Statements
from projectionist.outbox.intents.keys import cancel_key
from projectionist.outbox.intents.staging import Guard, StagedIntent, encode_intents
from projectionist.outbox.relay.database_link import DatabaseLink
from projectionist.outbox.relay.intent_store import IntentStore
from projectionist.outbox.relay.opener import Opener
from projectionist.outbox.relay.schedule_store import ScheduleStore

SHOP = 1
"""The number of the consumer that asks."""
_STAGE = Statements("projectionist.runner", "projectionist")["insert_intent_batches"]
_PASS = """
    update projectionist.schedule
    set due = due - $1::interval, look = look - $1::interval, expires = expires - $1::interval;
    update projectionist.floors set caught_up = caught_up - $1::interval
"""


class Scheduling:
    """What a consumer's batches would stage, and the openers that take it from there."""

    def __init__(self, harness: Outbox) -> None:
        self.harness, self.connection = harness, harness.connection
        self._links: list[DatabaseLink] = []
        self.stores = [self.store(), self.store()]
        """Of two openers."""
        self.senders = IntentStore(self._link(), "relay")

    def _link(self) -> DatabaseLink:
        self._links.append(DatabaseLink(self.harness.settings.postgres, "test"))
        return self._links[-1]

    def store(self) -> ScheduleStore:
        """Return the statements of one opener, on a connection of its own."""
        return ScheduleStore(self._link())

    def opener(self, opened: Callable[[], None] = lambda: None) -> Opener:
        """Return an opener that a test steps."""
        return Opener(self.store(), opened, 2.0)

    async def begin(self) -> None:
        """Register the consumer, which has caught up with the time as it is."""
        await self.connection.execute(
            "insert into projectionist.consumers (name, stream, durable) values ('Shop', 'SHOP', 'd')"
        )
        await self.connection.execute(
            "insert into projectionist.floors (consumer, durable, incarnation) values (1, 'd', 1)"
        )
        await self.catch_up()

    async def close(self) -> None:
        """Give the connections back."""
        for link in self._links:
            await link.close()

    async def catch_up(self, ago: timedelta = timedelta(0)) -> None:
        """As if the consumer had settled all that was published so long ago."""
        await self.connection.execute(
            "update projectionist.floors set caught_up = clock_timestamp() - $1::interval", ago
        )

    async def passes(self, time: timedelta) -> None:
        """As if so much time had passed, in which the consumer has settled nothing."""
        for statement in _PASS.split(";"):
            await self.connection.execute(statement, time)

    async def wish(
        self,
        version: int,
        due: timedelta | None,
        *,
        aggregate: str = "order/1",
        slot: str = "Reminder",
        class_name: str = "Reminder",
        guard: Guard = Guard.CAUGHT_UP,
        expires: timedelta | None = None,
        body: bytes = b"{}",
        key: str = "",
        provider: str = "stub",
        view: int | None = None,
    ) -> str:
        """Stage an intent that is due so long from now; return its key."""
        key = key or digest(aggregate, str(version), slot)
        moment: datetime = await self.connection.fetchval("select clock_timestamp()")
        await self.stage(
            StagedIntent(
                key=key,
                source="shop",
                id=f"{aggregate}:{version}",
                aggregate=aggregate,
                version=version,
                slot=slot,
                class_name=class_name,
                provider=provider,
                destination=provider,
                ordering=aggregate,
                on_dead="pass",
                body=body,
                traceparent=None,
                tracestate=None,
                seq=version,
                due=None if due is None else (moment + due).isoformat(),
                guard=None if due is None else guard,
                expires_s=None if expires is None else expires.total_seconds(),
                view=view,
            )
        )
        return key

    async def cancel(
        self,
        version: int,
        *,
        aggregate: str = "order/1",
        slot: str = "Reminder",
        names: tuple[str, ...] = ("Reminder",),
        view: int | None = None,
    ) -> None:
        """Stage a Cancel."""
        event = f"{aggregate}:{version}"
        await self.stage(
            StagedIntent(
                key=cancel_key("Shop", "shop", event, names[0], slot),
                source="shop",
                id=event,
                aggregate=aggregate,
                version=version,
                slot=slot,
                class_name=names[0],
                provider="stub",
                destination="",
                ordering=None,
                on_dead="pass",
                body=b"",
                traceparent=None,
                tracestate=None,
                seq=version,
                cancels=msgspec.json.encode(names).decode(),
                view=view,
            )
        )

    async def stage(self, *intents: StagedIntent) -> None:
        """Stage as one batch does."""
        await self.connection.execute(_STAGE, SHOP, 1, [len(intents)], [encode_intents(intents)])

    async def park(self, aggregate: str, version: int) -> None:
        """Have an event of the aggregate wait."""
        await self.connection.execute(
            """insert into projectionist.parked (consumer, source, id, cause, aggregate, version, ordered, incarnation,
                seq, subject, type, event_schema, hash)
            values (1, 'shop', $1 || ':' || $2::bigint, 'failed', $1, $2, true, 1, $2, 's', 't', 1, '')""",
            *(aggregate, version),
        )

    async def unpark(self, aggregate: str, version: int) -> None:
        """Have it wait no more."""
        await self.connection.execute(
            "delete from projectionist.parked where aggregate = $1 and version = $2", aggregate, version
        )

    async def place(self, key: str) -> str:
        """Return where an intent is: its state as the outbox has it, `scheduled`, or as it was settled."""
        state: str | None = await self.connection.fetchval(
            """select coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end)
            from projectionist.intents i left join projectionist.outbox o on o.seq = i.seq where i.key = $1""",
            key,
        )
        return state or "staged"

    async def floor(self) -> tuple[int, datetime]:
        """Return the floor of the only consumer, and when it had caught up."""
        row = await self.connection.fetchrow("select floor, caught_up from projectionist.floors")
        assert row is not None, "it was written"
        return row["floor"], row["caught_up"]

    async def counted(self, version: int, aggregate: str = "order/1") -> tuple[bool, int, int]:
        """Return of the Cancel of an event whether it is done, and how many it has hit and missed."""
        row = await self.connection.fetchrow(
            "select done, hit, late from projectionist.cancels where version = $1 and aggregate = $2",
            *(version, aggregate),
        )
        assert row is not None, "it was opened"
        return row["done"] is not None, row["hit"], row["late"]

    async def lane(self, name: str) -> list[str]:
        """Return the keys of what stands in a lane, in its order."""
        rows = await self.connection.fetch(
            """select i.key from projectionist.intents i join projectionist.outbox o using (seq)
            where o.lane = $1 order by o.place""",
            name,
        )
        return [row["key"] for row in rows]

    async def left(self) -> list[timedelta]:
        """Return how long each scheduled intent has still to wait."""
        rows = await self.connection.fetch(
            "select due - clock_timestamp() as left from projectionist.schedule"
        )
        return [row["left"] for row in rows]

    @asynccontextmanager
    async def held(self, table: str) -> AsyncIterator[None]:
        """Hold the rows of one of these tables, as a session does that is about to change them."""
        async with self.connection.transaction():
            await self.connection.execute(f"select from projectionist.{table} for update")
            yield

    async def incidents(self) -> list[str]:
        """Return the kinds of incidents."""
        return [
            row["kind"] for row in await self.connection.fetch("select kind from projectionist.incidents")
        ]

    async def epochs(self) -> dict[str, int | None]:
        """Return of what stands in the outbox, by key, in which home it is known not to be doubtful."""
        rows = await self.connection.fetch(
            "select i.key, o.epoch from projectionist.intents i join projectionist.outbox o using (seq)"
        )
        return {row["key"]: row["epoch"] for row in rows}

    async def keys(self, state: str | None = None) -> list[str]:
        """Return the keys of intents, or of those alone that are settled like this."""
        rows = await self.connection.fetch(
            "select key from projectionist.intents where $1::text in (state, null) or $1 is null order by seq",
            state,
        )
        return [row["key"] for row in rows]

    async def asked(self) -> tuple[int, int]:
        """Return how many intents and cancels were ever asked for."""
        row = await self.connection.fetchrow(
            """select (select count(*) from projectionist.intents) as intents,
                (select count(*) from projectionist.cancels) as cancels"""
        )
        assert row is not None, "it counts"
        return row["intents"], row["cancels"]

    async def reasons(self) -> set[str]:
        """Return what scheduled intents wait for, as operators see it."""
        rows = await self.connection.fetch("select waits_for from projectionist.schedule_seen")
        return {row["waits_for"] for row in rows}

    async def put(self, key: str, state: str, attempt: int = 0) -> None:
        """Bring an intent that has been promoted into a state."""
        await self.connection.execute(
            """update projectionist.outbox set state = $2, attempt = $3, open = $2 <> 'dead'
            where seq = (select seq from projectionist.intents where key = $1)""",
            *(key, state, attempt),
        )

    async def settle(self, key: str, state: str) -> None:
        """Settle an intent that has been promoted."""
        await self.connection.execute(
            "delete from projectionist.outbox where seq = (select seq from projectionist.intents where key = $1)",
            key,
        )
        await self.connection.execute(
            "update projectionist.intents set state = $2, settled = clock_timestamp() where key = $1",
            *(key, state),
        )

    async def empty(self) -> None:
        """Forget all intents, for the next example."""
        await self.connection.execute(
            "truncate projectionist.staged_intents, projectionist.intents, projectionist.outbox,"
            " projectionist.schedule, projectionist.cancels, projectionist.parked"
        )
        await self.catch_up()


def digest(*parts: str) -> str:
    """Return a key of the form that intents have."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@asynccontextmanager
async def scheduling(database: str, *, registered: bool = False) -> AsyncIterator[Scheduling]:
    """Return a schedule in a migrated database; `registered`: consumers are there already."""
    async with outbox(database) as harness:
        made = Scheduling(harness)
        try:
            if not registered:
                await made.begin()
            yield made
        finally:
            await made.close()

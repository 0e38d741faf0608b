"""Live consumers for a test: real servers, the real worker in this process, and an independent look at the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import asyncpg
import msgspec
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.peers import patient
from tests.support.servers import SCHEMA, Servers, Stream
from tests.support.waiting import HANG_S, cancelled, eventually

from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.statements import Statements
from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.core.settings.settings import Nats, Policy, Postgres, Run, Settings
from projectionist.outbox.intents.staging import unpack_all
from projectionist.projections import Event
from projectionist.projections.compiled.definition import ConsumerDefinition, consumer_definition
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.admin.parked_actions import ParkedActions
from projectionist.runner.admin.quarantine_actions import QuarantineActions
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.batch.times import USUAL, BatchTimes
from projectionist.runner.consumers.registry import Registry
from projectionist.runner.database.chores import AGAIN
from projectionist.runner.process.consumer_worker import ConsumerWorker
from projectionist.runner.process.database_access import DatabaseAccess
from projectionist.runner.process.supervisor import Supervised, supervise
from projectionist.runner.read_models.migrate import ReadModels

PATIENCE = Policy(
    ack_wait_s=10,
    gap_fetch_delay_ms=50,
    late_s=0,
    retry=RetryPolicy(initial_s=0.01, maximum_s=0.05, attempts=3),
)
"""What tests run by: little of it."""
UNHURRIED = msgspec.structs.replace(PATIENCE, gap_fetch_delay_ms=3_600_000)
"""The same, but nobody looks for what lacks: a gap stays one, however long the test takes."""


_NEVER = {
    "a position that counts other events than those that are parked behind it": """
        select p.consumer, p.aggregate, p.parked, count(e.id)
        from {s}.positions p
        left join {s}.parked e on e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered
        group by p.consumer, p.aggregate, p.parked having p.parked <> count(e.id)""",
    "an event parked at or below its position": """
        select e.* from {s}.parked e join {s}.positions p using (consumer, aggregate)
        where e.ordered and e.version <= p.version""",
    "a head that disagrees with what is parked behind it": """
        select p.* from {s}.positions p where (p.head = 'clear') <> (p.parked = 0)""",
    "a head that waits for its time and has none": """
        select p.* from {s}.positions p
        where (p.head in ('gap', 'failed', 'draining')) <> (p.due is not null)""",
    "a failed head whose first event has not failed": """
        select p.* from {s}.positions p cross join lateral (
            select e.cause from {s}.parked e
            where e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered order by e.version limit 1
        ) first
        where p.head in ('failed', 'waiting') and p.finding is null and first.cause <> 'failed'""",
    "an inbox row that says parked of an event that is not, or the other way round": """
        select coalesce(i.id, e.id) from (select * from {s}.inbox where state = 'parked') i
        full join (select * from {s}.parked where not discarded) e using (consumer, source, id)
        where i.id is null or e.id is null""",
    "an ack of ours that was taken for another's": """
        select detail from {s}.incidents where kind = 'acked_elsewhere'""",
    "a count of held aggregates that is kept and not so": """
        select consumer, head, sum(aggregates), sum(events) from (
            select consumer, head, aggregates, events from {s}.held_counts
            union all select consumer, head, -1, -parked from {s}.positions where head <> 'clear'
        ) x group by consumer, head having sum(aggregates) <> 0 or sum(events) <> 0""",
    "a count of parked events that is kept and not so": """
        select consumer, cause, type, alike, state, sum(events) from (
            select consumer, cause, type, alike, state, events from {s}.parked_counts
            union all select consumer, cause, type, alike, {s}.parked_state(ordered, cause, due), -1 from {s}.parked
        ) x group by consumer, cause, type, alike, state having sum(events) <> 0""",
    "a minute that counts more than its process": """
        select m.consumer, m.runner from (
            select consumer, runner, sum(applied) as n from {s}.minute_counts group by consumer, runner
        ) m left join (
            select consumer, runner, sum(n) as n from {s}.counters where outcome = 'applied' group by consumer, runner
        ) t using (consumer, runner)
        where m.n > coalesce(t.n, 0)""",
    "an intent with content of an event that was not applied": """
        select n.* from {s}.intents n left join {s}.inbox i using (consumer, source, id)
        where n.consumer <> 0 and i.state is distinct from 'applied' and octet_length(n.body) > 0""",
}


class ConsumerHarness:
    """One database, one stream, and consumers on them. Made by `harness`."""

    def __init__(
        self,
        servers: Servers,
        database: str,
        stream: Stream,
        settings: Settings,
        js: Client,
        ours: Any,
        pool: Any,
    ) -> None:
        self.servers = servers
        self.database = database
        self.stream = stream
        self.settings = settings
        self._pools: list[asyncpg.Pool[asyncpg.Record]] = []
        self._postgres, self._run = settings.postgres, settings.run
        self.nats = js
        self.pool: asyncpg.Pool[asyncpg.Record] = pool
        """Connections as anybody has them, who asks for tables by their bare names."""
        self._own_pool: asyncpg.Pool[asyncpg.Record] = ours
        self.policy = settings.consumer_defaults
        self.access = DatabaseAccess(ours, SCHEMA, heartbeat_s=settings.run.heartbeat_s)
        self.tampered = False
        """Set by a test that takes something away: then it need not be sound."""
        self._ids = count(1)
        self._tasks: list[asyncio.Task[None]] = []

    def needs_nats(self, major: int, minor: int, what: str) -> None:
        """Leave the test out on an older server than this, which cannot do what the test is about."""
        here = self.nats.connected_server_version
        if (here.major, here.minor) < (major, minor):
            pytest.skip(f"nats-server {major}.{minor} is the first that {what}")

    async def migrate(self, *consumers: type, **options: float) -> None:
        """Create or evolve the read models of these classes; `options` are those of `ReadModels`."""
        definitions = [consumer_definition(cls) for cls in consumers]
        connection = await db.connect(self.settings.postgres, application_name="harness")
        try:
            models = ReadModels(connection, SCHEMA, **options)
            await models.apply(definitions, await models.plan(definitions))
        finally:
            await connection.close()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[db.Connection]:
        """A connection of the role that the consumers work as, as the role itself would open it."""
        url = self.settings.postgres.direct.url
        assert url is not None
        connection = await asyncpg.connect(url.reveal())
        try:
            yield connection
        finally:
            await connection.close()

    async def publish(
        self,
        event: Event,
        aggregate: str,
        version: int | None,
        *,
        id: str | None = None,  # noqa: A002 - the envelope's word
        source: str = "shop",
        kind: str = "order",
        headers: dict[str, str] | None = None,
        place: str | None = None,
    ) -> int:
        """Store one event in the stream, under subject token `place` instead of its kind; its sequence."""
        made = headers_of(event, aggregate, version, id=id or f"e{next(self._ids)}", source=source, kind=kind)
        return await self.publish_raw(
            msgspec.json.encode(event), made | (headers or {}), aggregate, kind=place or kind
        )

    async def publish_raw(
        self, data: bytes, headers: dict[str, str] | None, aggregate: str, *, kind: str = "order"
    ) -> int:
        """Store bytes in the stream as they are; their sequence."""
        subject = self.stream.subject(kind, aggregate)
        ack = await self.nats.jetstream().publish(subject, data, headers=headers)
        return ack.seq

    async def publish_all(self, events: Iterable[tuple[Event, str, int | None, str]]) -> None:
        """Store many events (event, aggregate, version, id) in this order, without waiting for each."""
        before = (await self.nats.jetstream().stream_info(self.stream.name)).state.messages
        expected = before
        for event, aggregate, version, name in events:
            expected += 1
            headers = headers_of(event, aggregate, version, id=name)
            subject = self.stream.subject("order", aggregate)
            await self.nats.publish(subject, msgspec.json.encode(event), headers=headers)
        await self.nats.flush()

        async def stored() -> bool:
            return (await self.nats.jetstream().stream_info(self.stream.name)).state.messages >= expected

        await eventually(stored)

    @asynccontextmanager
    async def running(
        self,
        *consumers: type,
        processes: int = 1,
        policy: Policy | None = None,
        limits: Limits | None = None,
        supervised: bool = False,
        times: BatchTimes = USUAL,
        again: RetryPolicy = AGAIN,
        ping_s: float = connections.PING_S,
    ) -> AsyncIterator[list[ConsumerWorker]]:
        """The consumers at work in this process, as `processes` processes would be; `supervised`: what one of them
        raises is tried again by the schedule `again`, as `run` does it."""
        settings = self.settings
        if policy is not None:
            settings = msgspec.structs.replace(settings, consumer_defaults=policy)
        if limits is not None:
            settings = msgspec.structs.replace(settings, batch=limits)
        clients = [
            await connections.connect(settings.nats, name=f"harness {n}", ping_s=ping_s)
            for n in range(processes)
        ]
        access = await self._access(settings)
        groups = [
            [ConsumerWorker(consumer_definition(cls), settings, c, access, times=times) for cls in consumers]
            for c in clients
        ]
        workers = [worker for group in groups for worker in group]
        running = (
            [supervise([Supervised(worker, again=again) for worker in group]) for group in groups]
            if supervised
            else [worker.run() for worker in workers]
        )
        tasks = [asyncio.create_task(one) for one in running]
        self._tasks += tasks
        try:
            yield workers
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            self._tasks = [task for task in self._tasks if task not in tasks]
            for worker in workers:
                worker.stop()
            # A batch that has begun is brought to its end, which never comes while PostgreSQL is away.
            late = (await asyncio.wait(tasks, timeout=HANG_S))[1]
            ended = await cancelled(*tasks)
            for client in clients:
                await client.close()
        assert not late, f"{len(late)} workers did not stop within {HANG_S} s"
        for result in ended:
            if isinstance(result, BaseException):
                raise result

    async def _access(self, settings: Settings) -> DatabaseAccess:
        """The harness's own, unless what runs is to see another server, or this one through something."""
        pool, heartbeat_s = self._own_pool, settings.run.heartbeat_s
        if settings.postgres != self._postgres:
            pool = await db.pool(settings.postgres, application_name="harness", most=8)
            self._pools.append(pool)
        elif settings.run == self._run:
            return self.access
        lends = settings.postgres.direct_url is not None
        return DatabaseAccess(pool, SCHEMA, heartbeat_s=heartbeat_s, lends_sessions=lends)

    def close(self) -> None:
        """Give up the connections made for what ran."""
        for pool in self._pools:
            pool.terminate()

    async def settle(
        self, *consumers: type, processes: int = 1, seconds: float = HANG_S, **options: Any
    ) -> None:
        """Run the consumers until every event of the stream has been settled and acked, then stop them."""
        async with self.running(*consumers, processes=processes, **options):
            await self.settled(*consumers, seconds=seconds)

    async def settled(self, *consumers: type, seconds: float = HANG_S) -> None:
        """Wait until nothing is unread or unacked at the broker, and nothing is due."""

        async def done() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            for cls in consumers:
                await self._assert_idle(consumer_definition(cls))
            return True

        await eventually(done, seconds=seconds)

    async def _assert_idle(self, one: ConsumerDefinition) -> None:
        row = await self.pool.fetchrow(
            f"select number, durable from {SCHEMA}.consumers where name = $1", one.name
        )
        assert row is not None, "migrate first"
        try:
            info = await self.nats.jetstream().consumer_info(self.stream.name, row["durable"])
        except nats.js.errors.NotFoundError:
            raise AssertionError(f"{one.name} has no durable") from None
        left = info.num_pending, info.num_ack_pending
        assert left == (0, 0), f"{one.name}: of messages (not delivered, not acked) are {left}"
        due = await self.value(
            "select exists (select from {s}.positions where consumer = $1 and due <= clock_timestamp())"
            " or exists (select from {s}.parked where consumer = $1 and due <= clock_timestamp())",
            row["number"],
        )
        assert not due, f"{one.name}: something is due"
        # The broker counts a message that is on its way neither as pending nor as unacked, for a moment.
        missing = [] if self.tampered else await self._unaccounted(one.name)
        assert not missing, f"{one.name}: nothing is known of {missing}"

    async def rows(self, table: str, order: str = "1") -> list[tuple[Any, ...]]:
        """The rows of a read model, as its readers see them."""
        return [tuple(row) for row in await self.pool.fetch(f"select * from {table} order by {order}")]

    async def fetch(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Rows of a query; `{s}` stands for our own schema."""
        await self._opened(sql)
        return [tuple(row) for row in await self.pool.fetch(sql.replace("{s}", SCHEMA), *args)]

    async def value(self, sql: str, *args: Any) -> Any:
        """The one value of a query; `{s}` stands for our own schema."""
        await self._opened(sql)
        return await self.pool.fetchval(sql.replace("{s}", SCHEMA), *args)

    async def _opened(self, sql: str) -> None:
        """Unpack staged intents before a look at them, as every command does."""
        if "{s}.intents" in sql or "{s}.outbox" in sql:
            async with self.pool.acquire() as connection:
                await unpack_all(connection, Statements("projectionist.outbox", SCHEMA))

    async def failed_tries(self) -> int:
        """Return how many tries of an event have failed, over all consumers."""
        return int(
            await self.value("select coalesce(sum(n), 0)::int from {s}.counters where outcome = 'failed'")
        )

    async def value_of(self, sql: str, wanted: object, *args: Any) -> None:
        """Wait until the one value of a query is the wanted one."""

        async def reached() -> bool:
            found = await self.value(sql, *args)
            assert found == wanted, f"{sql} says {found!r}, not {wanted!r}"
            return True

        await eventually(reached)

    async def blocked(self, by: db.Connection | None = None) -> None:
        """Wait until somebody waits for a lock in this database, of `by` where others may be waited for too."""
        waiting = "from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        if by is not None:
            waiting += f" and {by.get_server_pid()} = any (pg_blocking_pids(pid))"
        await self.value_of(f"select exists (select {waiting})", True)

    async def states(self, cls: type) -> dict[str, str]:
        """The inbox of a consumer: event id to state."""
        rows = await self.fetch(
            "select i.id, i.state from {s}.inbox i join {s}.consumers c on c.number = i.consumer where c.name = $1",
            consumer_definition(cls).name,
        )
        return dict(rows)

    async def head(self, cls: type, aggregate: str) -> tuple[int, str, int]:
        """Return where an aggregate (`type/id`) stands: version, head, parked."""
        rows = await self.fetch(
            "select p.version, p.head, p.parked from {s}.positions p join {s}.consumers c on c.number = p.consumer"
            " where c.name = $1 and p.aggregate = $2",
            *(consumer_definition(cls).name, aggregate),
        )
        assert rows, f"{aggregate} has no position"
        return rows[0]

    @asynccontextmanager
    async def acks(self, cls: type) -> AsyncIterator[list[tuple[int, int]]]:
        """Collect what processes answer to deliveries: acked (stream sequence, number of the delivery)."""
        seen: list[tuple[int, int]] = []

        async def note(message: Msg) -> None:
            words = message.subject.split(".")
            if message.data in (b"", b"+ACK"):
                seen.append((int(words[-4]), int(words[-5])))

        durable = await self.value(
            "select durable from {s}.consumers where name = $1", consumer_definition(cls).name
        )
        subscription = await self.nats.subscribe(f"$JS.ACK.{self.stream.name}.{durable}.>", cb=note)
        await self.nats.flush()
        yield seen
        await subscription.unsubscribe()

    async def unaccounted(self, cls: type) -> list[int]:
        """Stream sequences of which this consumer knows nothing, from what retention has removed to the end."""
        return await self._unaccounted(consumer_definition(cls).name)

    async def _unaccounted(self, name: str) -> list[int]:
        state = (await self.nats.jetstream().stream_info(self.stream.name)).state
        if not state.messages:
            return []
        rows = await self.fetch(
            """select x.seq from {s}.consumers c cross join lateral (
                select seq from {s}.inbox where consumer = c.number
                union select seq from {s}.duplicates where consumer = c.number
                union select seq from {s}.quarantine where consumer = c.number
            ) x where c.name = $1""",
            name,
        )
        line = await self.value(
            "select coalesce(max(f.purged), 0) from {s}.floors f join {s}.consumers c on c.number = f.consumer"
            " and c.incarnation = f.incarnation where c.name = $1",
            name,
        )
        first = max(state.first_seq, line + 1)
        missing = sorted(set(range(first, state.last_seq + 1)) - {seq for (seq,) in rows})
        return await self._ours(name, missing)

    async def _ours(self, name: str, missing: list[int]) -> list[int]:
        """Those that are the consumer's: of what has another subject nothing is kept but a count."""
        texts = await self.value("select subjects from {s}.consumers where name = $1", name)
        subjects, ours = Subjects(texts.split(" ")), []
        for seq in missing:
            try:
                message = await self.nats.jetstream().get_msg(self.stream.name, seq)
            except nats.js.errors.NotFoundError:  # deleted meanwhile
                ours.append(seq)
            else:
                ours += [seq] if subjects.reads(message.subject or "") else []
        return ours

    async def assert_sound(self) -> None:
        """Assert what holds whenever no batch is open, whatever has happened: the `live` fixture ends with it."""
        if self.tampered:
            return
        for name, durable in await self.fetch("select name, durable from {s}.consumers"):
            try:
                info = await self.nats.jetstream().consumer_info(self.stream.name, durable)
            except nats.js.errors.NotFoundError:
                continue  # it has never run
            missing = await self._unaccounted(name)
            pending = (info.num_pending or 0) + (info.num_ack_pending or 0)
            assert len(missing) <= pending, f"{name} knows nothing of {missing}, and {pending} are pending"
        parts = (f"select $${what}$$, to_jsonb(x)::text from ({sql}) x" for what, sql in _NEVER.items())
        found = await self.fetch(" union all ".join(parts))
        assert found == [], found

    async def count_anew(self) -> None:
        """Count what waits as runners do now and then: a test has written by hand what is counted."""
        sql = Statements("projectionist.runner", SCHEMA)
        for (number,) in await self.fetch("select number from {s}.consumers"):
            await self.pool.execute(sql["count_anew"], number)

    async def own_connection(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection to the database that is nobody else's; the test closes it."""
        return await asyncpg.connect(self.database)

    @asynccontextmanager
    async def verbs(self, cls: type) -> AsyncIterator[ParkedActions]:
        """The operator's verbs for one consumer."""
        async with self.pool.acquire() as connection:
            registered = await Registry(connection, SCHEMA).checked(consumer_definition(cls))
            yield ParkedActions(store_of(connection, SCHEMA, registered[0]["number"]))

    @asynccontextmanager
    async def quarantine(self, cls: type) -> AsyncIterator[QuarantineActions]:
        """The operator's verbs for what one consumer has put into quarantine."""
        async with self.verbs(cls) as verbs:
            yield QuarantineActions(verbs._store)


def headers_of(
    event: Event,
    aggregate: str,
    version: int | None,
    *,
    id: str,  # noqa: A002 - the envelope's word
    source: str = "shop",
    kind: str = "order",
) -> dict[str, str]:
    """The headers of an event by the names of CloudEvents."""
    return {
        "ce-id": id,
        "ce-source": source,
        "ce-type": type(event).__event_type__,
        "ce-schemaversion": str(type(event).__event_schema__),
        "ce-aggregatetype": kind,
        "ce-aggregateid": aggregate,
        **({} if version is None else {"ce-aggregateversion": str(version)}),
    }


@asynccontextmanager
async def harness(servers: Servers, database: str, stream: Stream) -> AsyncIterator[ConsumerHarness]:
    """A harness on these servers."""
    settings = Settings(
        postgres=Postgres(url=Url(database), schema=SCHEMA),
        nats=Nats(url=(Url(servers.nats_url),)),
        run=Run(heartbeat_s=0.2),
        consumer_defaults=PATIENCE,
    )
    client = await patient(servers.nats_url, reconnect_time_wait=0.1, max_reconnect_attempts=-1)
    ours = await db.pool(settings.postgres, application_name="harness", most=8)
    pool = await asyncpg.create_pool(database, min_size=0, max_size=8)
    made = ConsumerHarness(servers, database, stream, settings, client, ours, pool)
    try:
        yield made
    finally:
        made.close()
        await client.close()
        ours.terminate()
        pool.terminate()

"""One durable, one database: a copy of a database neither reads nor sends until somebody has decided."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.copies import copy_beside, dump_elsewhere, dumped, loaded
from tests.support.load import Load, tuned
from tests.support.outbox import FORGETS, made, outbox, scripted
from tests.support.process import projectionist, run_projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core.operator import Act
from projectionist.core.postgres import database_identity
from projectionist.core.postgres.database_identity import DatabaseCopied
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.jetstream.durable_owner import DurableNotOurs
from projectionist.runner.stream_guard.adopt_database import NothingToTake, Takeover

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "this is the real one")


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def inbox(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    return int(await connection.fetchval(f"select count(*) from {SCHEMA}.inbox"))


async def kinds(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    rows = await connection.fetch(
        f"select distinct kind from {SCHEMA}.incidents where closed is null order by 1"
    )
    return [row["kind"] for row in rows]


async def metadata(harness: ConsumerHarness) -> dict[str, str]:
    (name,) = [row[0] for row in await inspection.rows(harness, "consumers", "durable")]
    return (await harness.nats.jetstream().consumer_info(harness.stream.name, name)).config.metadata or {}


async def test_a_durable_bears_the_name_of_its_database_and_consumer(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)

    borne = await metadata(live)

    here = await live.value("select system_identifier::text from pg_control_system()")
    assert borne["projectionist.system"] == here
    assert borne["projectionist.consumer"] == f"{await inspection.consumer_number(live)} Orders"
    assert borne["projectionist.schema"] == SCHEMA
    assert borne["projectionist.owner"] == await live.value("select token::text from {s}.owner")


async def test_a_durable_of_before_is_taken_up_and_what_others_wrote_into_it_stays(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    js = live.nats.jetstream()
    name = await inspection.durable_name(live)
    config = (await js.consumer_info(live.stream.name, name)).config
    config.metadata = {"team": "shop"}
    await js.add_consumer(live.stream.name, config)

    await live.settle(s.Orders)

    borne = await metadata(live)
    assert borne["team"] == "shop"
    assert borne["projectionist.owner"] == await live.value("select token::text from {s}.owner")


@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
async def test_a_copy_beside_the_original_takes_nothing_from_it(live: ConsumerHarness, sequence: Any) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(5)
    await live.settle(s.Orders, s.Spend)

    async with copy_beside(live.servers, live.database) as copy, connected(copy) as there:
        with listening() as heard:
            async with live.running(s.Orders, s.Spend):
                tuned(live, url=copy)
                async with live.running(s.Orders, s.Spend) as workers:
                    await heard.wait("owner.database_copied", 2)
                    await load.more(50)
                    await live.settled(s.Orders, s.Spend)
                    assert [worker.trouble for worker in workers if "is a copy" in (worker.trouble or "")]
                    assert (await inbox(there), await kinds(there)) == (20, ["database_copied"])
        await live.pool.expire_connections()

    await load.check()


async def test_a_dump_in_another_cluster_is_known_and_reads_when_it_is_adopted(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    live.tampered = True  # in the end the other database is the real one

    with dump_elsewhere(live.servers, live.database) as url:
        async with connected(url) as there:
            with listening() as heard:
                async with live.running(s.Orders):
                    tuned(live, url=url)
                    async with live.running(s.Orders):
                        await heard.wait("owner.database_copied")
                        taken = await Takeover(there, live.nats, SCHEMA).adopt(ACT)
                        await heard.wait("owner.durable_taken")  # by the original, which stands still now
                        for number in range(2, 30):
                            await live.publish(OrderPlaced("ann", number), f"o{number}", 1)
                        await eventually(lambda: holds(there, 29))
                        assert await inspection.count_inbox(live) == 1
            assert await kinds(there) == []
            assert str(taken.before) != taken.database
            assert (
                await there.fetchval(f"select reason from {SCHEMA}.audit where action = 'adopt-database'")
                == ACT.reason
            )


async def holds(connection: asyncpg.Connection[asyncpg.Record], events: int) -> bool:
    return await inbox(connection) == events


async def test_the_original_takes_its_durables_back_when_it_is_adopted(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(5)
    await live.settle(s.Orders, s.Spend)

    async with copy_beside(live.servers, live.database) as copy, connected(copy) as there:
        await Takeover(there, live.nats, SCHEMA).adopt(ACT)
        addresses = {
            "PROJECTIONIST_POSTGRES__URL": live.database,
            "PROJECTIONIST_NATS__URL": live.servers.nats_url,
        }
        with listening() as heard:
            async with live.running(s.Orders, s.Spend):
                await heard.wait("owner.durable_taken", 2)
                await load.more(5)
                done = await run_projectionist(
                    "adopt", "--database", "--reason", "no copy", cwd=tmp_path, **addresses
                )
                await live.settled(s.Orders, s.Spend)
                await inspection.reaches(0, inspection.count_incidents, live, unsettled=True)
        again = await run_projectionist(
            "adopt", "--database", "--reason", "no copy", cwd=tmp_path, **addresses
        )
        assert await inbox(there) == 20

    assert (done.code, done.err) == (0, "")
    assert done.out.count("was another database's") == 2
    assert (again.code, "is the real one already" in again.err) == (1, True)
    await load.check()


async def test_what_is_told_in_the_middle_of_an_adoption_is_closed_by_whoever_opens(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    """Between the move of the database and that of its durables they still bear the mark of the other one."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(5)
    await live.settle(s.Orders, s.Spend)
    addresses = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
    }
    adopt = ("adopt", "--database", "--reason", "no copy")
    async with copy_beside(live.servers, live.database) as copy, connected(copy) as there:
        await Takeover(there, live.nats, SCHEMA).adopt(ACT)
        async with projectionist(
            *adopt, cwd=tmp_path, env=addresses, pause_at={"takeover.moved": 1}
        ) as child:
            await child.paused("takeover.moved")
            with listening() as heard:
                async with live.running(s.Orders, s.Spend):
                    await heard.wait("owner.durable_taken", 2)
                    child.signal(signal.SIGCONT)
                    assert (await child.ended()).code == 0
                    await load.more(5)
                    await live.settled(s.Orders, s.Spend)
                    await inspection.reaches(0, inspection.count_incidents, live, unsettled=True)

    told = await inspection.rows(live, "incidents", "kind", "settled")
    assert [kind for kind, _ in told] == ["durable_taken"] * 2
    assert all(settled.endswith("is this database's") for _, settled in told)
    await load.check()


async def test_verbs_of_a_copy_leave_the_durables_of_the_original_alone(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)

    async with copy_beside(live.servers, live.database) as copy, connected(copy) as there:
        await there.execute(f"update {SCHEMA}.runners set stopped = clock_timestamp()")
        with pytest.raises(DatabaseCopied):
            await Resetting(there, live.nats, SCHEMA).reset("Orders", ACT)
        await Takeover(there, live.nats, SCHEMA).adopt(ACT)
        await live.pool.expire_connections()
        async with live.pool.acquire() as connection:
            with pytest.raises(DurableNotOurs):
                await Resetting(connection, live.nats, SCHEMA).reset("Orders", ACT)
            with pytest.raises(NothingToTake):
                await Takeover(there, live.nats, SCHEMA).adopt(ACT)


async def test_a_relay_on_a_copy_sends_nothing_until_it_is_adopted(live: ConsumerHarness) -> None:
    stub = scripted()
    live.tampered = True  # intents without events
    async with outbox(live.database) as original:
        keys = [await original.want() for _ in range(5)]
        await database_identity.owner(original.connection, SCHEMA)
    async with copy_beside(live.servers, live.database) as copy, outbox(copy) as harness:
        with listening() as heard:
            async with harness.relaying(made(stub)) as relay:
                await heard.wait("relay.away", 2)
                assert (set(await harness.states()), stub.executions.total()) == ({"ready"}, 0)
                assert relay.troubles() != []
                await Takeover(harness.connection, live.nats, SCHEMA).adopt(ACT)
                await harness.all_become("sent")
    assert stub.executions == dict.fromkeys(keys, 1)


async def test_intents_of_a_schema_that_was_restored_in_its_database_are_doubted(
    live: ConsumerHarness,
) -> None:
    stub = scripted(FORGETS)
    live.tampered = True  # intents without events
    async with outbox(live.database) as harness:
        keys = [await harness.want()]
        async with harness.relaying(made(stub)):
            await harness.all_become("sent")
        keys += [await harness.want() for _ in range(3)]
        dump = dumped(live.servers, live.database)
        async with harness.relaying(made(stub)):
            await harness.all_become("sent")
        await harness.connection.execute(f"drop schema {SCHEMA} cascade")
    loaded(live.servers, live.database, dump)
    async with outbox(live.database) as harness:
        with listening() as heard:
            async with harness.relaying(made(stub)):
                await heard.wait("relay.failed_over")
                await eventually(lambda: reconciled(harness.connection, 3))
    assert stub.executions == dict.fromkeys(keys, 1)


async def reconciled(connection: asyncpg.Connection[asyncpg.Record], many: int) -> bool:
    found = await connection.fetchval(f"select count(*) from {SCHEMA}.outbox where state = 'reconcile'")
    return bool(found == many)


async def test_a_schema_copied_beside_itself_takes_nothing_from_the_original(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    dump = dumped(live.servers, live.database)
    await live.pool.execute(f"alter schema {SCHEMA} rename to original; drop view orders")
    loaded(live.servers, live.database, dump)
    live.tampered = True

    async with connected(live.database) as connection:
        with pytest.raises(DatabaseCopied, match="a copy inside of its database"):
            await database_identity.owner(connection, SCHEMA)
        await database_identity.owner(connection, "original")
        await Takeover(connection, live.nats, SCHEMA).adopt(ACT)
        await database_identity.owner(connection, SCHEMA)


async def test_a_role_that_may_not_read_the_cluster_knows_its_database_by_numbers(
    live: ConsumerHarness,
) -> None:
    async with connected(live.database) as connection:
        await connection.execute(
            "revoke execute on function pg_control_system() from public; create role plain login"
        )
        try:
            await connection.execute(f"grant usage on schema {SCHEMA} to plain")
            await connection.execute(f"grant all on all tables in schema {SCHEMA} to plain; set role plain")
            mine = await database_identity.owner(connection, SCHEMA)
            await connection.execute(f"update {SCHEMA}.owner set home = (home::bigint + 1)::oid")
            with pytest.raises(DatabaseCopied):
                await database_identity.owner(connection, SCHEMA)
            await connection.execute(f"update {SCHEMA}.owner set home = (home::bigint - 1)::oid; reset role")
            known = await database_identity.owner(connection, SCHEMA)
        finally:
            await connection.execute("reset role; drop owned by plain; drop role plain")
            await connection.execute("grant execute on function pg_control_system() to public")

    assert (mine.place.system, mine.token) == (None, known.token)
    assert known.place.system is not None

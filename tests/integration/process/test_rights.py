"""Runners that own nothing: what takes the owner is left to him, and a right that is missing ends and loses nothing."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.duties import named, with_duties, working_as
from tests.support.load import tuned
from tests.support.looking_up import RATES, TABLE, Sold, looking_up
from tests.support.process import projectionist
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderRow, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually, listening

from projectionist.core.postgres.rights import Duty
from projectionist.core.retry_policy import RetryPolicy
from projectionist.ops.doctor.check import Level
from projectionist.ops.doctor.consumers import lookups
from projectionist.projections import definition
from projectionist.runner.batch.lookup_reader import LookupUnavailable, unavailable
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.database.dead_sessions import DeadSessions

pytestmark = pytest.mark.asyncio

SOON = RetryPolicy(initial_s=0.05, maximum_s=0.1)


async def test_a_runner_that_owns_nothing_goes_on_after_the_owners_rebuild(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with with_duties(live) as urls, working_as(live, urls[Duty.RUNNER]), live.running(s.Orders):
        await live.settled(s.Orders)
        async with working_as(live, urls[Duty.OWNER]):
            await rebuilds.rebuild(s.Orders)
        await live.publish(OrderPlaced("bob", 1), "o2", 1)
        await live.settled(s.Orders)
        assert await rebuilds.generation(s.Orders) == 2
        assert len(await live.rows("orders")) == 2
        reader = await asyncpg.connect(urls[Duty.READER])
        assert await reader.fetchval("select count(*) from public.orders") == 2
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.fetch(f"select * from {SCHEMA}.inbox")
        await reader.close()


@pytest.mark.parametrize(
    ("cls", "table", "right"),
    [
        ("Orders", "orders__g1", "update, insert"),
        ("Journal", "journal__g1", "insert"),
        ("Orders", "inbox", "insert"),
    ],
)
async def test_an_event_waits_for_a_right_that_is_missing_and_is_applied_once_it_is_given(
    live: ConsumerHarness, told: list[str], cls: str, table: str, right: str
) -> None:
    consumer = getattr(shop(live.stream), cls)
    await live.migrate(consumer)
    async with with_duties(live) as urls, working_as(live, urls[Duty.RUNNER]):
        runner = named(live, Duty.RUNNER)
        await live.pool.execute(f"revoke {right} on {SCHEMA}.{table} from {runner}")
        await live.publish(OrderNoted("said"), "o1", 1)
        brief = msgspec.structs.replace(live.policy, ack_wait_s=2.0)  # each try is a delivery
        with listening() as heard:
            async with live.running(consumer, supervised=True, again=SOON, policy=brief):
                await heard.wait("worker.stuck", 3)
                for state in ("parked", "quarantine"):
                    assert await inspection.count(live, state) == 0
                await live.pool.execute(f"grant {right} on {SCHEMA}.{table} to {runner}")
                await live.settled(consumer)
        [line] = {line for line in told if "lacks rights of a runner" in line}
        assert f"permission denied for table {table}" in line
        assert f"roles apply --runner {runner}" in line
        assert f'on {SCHEMA}.{table} to "{runner}"' in line
        assert await live.failed_tries() == 0
        assert await inspection.rows(live, "inbox", "state") == [("applied",)]


async def test_a_right_that_is_missing_on_a_table_that_is_looked_up_is_waited_for_and_told(
    live: ConsumerHarness, tmp_path: Any
) -> None:
    """At the start and while it runs; the doctor says it too, and nothing is parked for want of it."""
    s = looking_up(live.stream)
    await live.pool.execute(f"{TABLE}; {RATES}")
    await live.migrate(s.Taxed)
    await live.publish(Sold(("DE",), 1), "o1", 1)
    async with with_duties(live) as urls, working_as(live, urls[Duty.RUNNER]):
        runner = named(live, Duty.RUNNER)
        async with live.running(s.Taxed) as (worker,):

            async def told() -> bool:
                waits = worker.waits
                return isinstance(
                    waits, LookupUnavailable
                ) and "permission denied for table tax_rates" in str(waits)

            await eventually(told)
            assert "`grant select` to who runs this" in str(worker.waits)
            async with live.connected() as connection:
                refused = await unavailable(connection, definition(s.Taxed))
            assert [one.level for one in lookups(definition(s.Taxed), refused)] == [Level.ATTENTION]
            await live.pool.execute(f'grant select on tax_rates to "{runner}"')
            await live.settled(s.Taxed)
            await live.pool.execute(f'revoke select on tax_rates from "{runner}"')
            await live.publish(Sold(("FR",), 1), "o1", 2)
            await eventually(told)
            await live.pool.execute(f'grant select on tax_rates to "{runner}"')
            await live.settled(s.Taxed)
    assert await live.rows("taxed") == [("o1", "DE=0.1900;FR=0.2000;", 0)]
    assert await inspection.rows(live, "inbox", "state") == [("applied",)] * 2


async def test_a_process_says_in_status_which_right_it_waits_for(
    live: ConsumerHarness, tmp_path: Any
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    async with with_duties(live) as urls:
        runner = named(live, Duty.RUNNER)
        await live.pool.execute(f"revoke update, insert on {SCHEMA}.orders__g1 from {runner}")
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        env = dict(environment(live)) | {"PROJECTIONIST_POSTGRES__URL": urls[Duty.RUNNER]}
        async with projectionist("run", APP, env=env) as child:
            await child.heard("worker.stuck")

            async def shown() -> bool:
                return f"roles apply --runner {runner}" in (await Cli(live, tmp_path).run("status")).out

            await eventually(shown)
            await inspection.reaches(1, _rows_of_spend, live)
            await live.pool.execute(f"grant update, insert on {SCHEMA}.orders__g1 to {runner}")
            await live.settled(s.Orders, s.Spend)


async def _rows_of_spend(live: ConsumerHarness) -> int:
    return len(await live.rows("spend"))


async def test_generations_that_are_over_are_left_to_the_owner_who_is_told(
    rebuilds: RebuildHarness, told: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = rebuilds.harness
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    await live.pool.execute(f"update {SCHEMA}.generations set kept_until = now() where state = 'kept'")
    async with with_duties(live) as urls:
        env = dict(environment(live, run__heartbeat_s="0.2")) | {
            "PROJECTIONIST_POSTGRES__URL": urls[Duty.RUNNER]
        }
        async with projectionist("run", APP, "--only", "Orders", env=env) as child:
            await child.heard("sweep.left")
            cli = Cli(live, tmp_path, **environment(live))

            async def shown() -> bool:
                return "wait for their owner" in (await cli.run("status")).out

            await eventually(shown)
            owner = Cli(
                live, tmp_path, **dict(environment(live)) | {"PROJECTIONIST_POSTGRES__URL": urls[Duty.OWNER]}
            )
            assert "generations that were kept long enough are dropped: 1" in await owner.done("purge", APP)
            assert not child.has_ended
            assert child.err.count("wait for their owner") == 1
    assert await live.value(f"select to_regclass('{SCHEMA}.orders__g1')") is None


def _raised(live: ConsumerHarness) -> type:
    stream = live.stream

    class Orders(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        revision=2,
    ):
        """The next revision."""

    return Orders


async def test_a_raised_revision_waits_until_the_owner_has_built_it(
    rebuilds: RebuildHarness, told: list[str]
) -> None:
    live = rebuilds.harness
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    raised = _raised(live)
    async with with_duties(live) as urls, working_as(live, urls[Duty.RUNNER]):
        with listening() as heard:
            async with live.running(raised, supervised=True):
                await heard.wait("worker.waiting")
                async with working_as(live, urls[Duty.OWNER]):
                    await rebuilds.rebuild(raised)
                await live.publish(OrderPaid(), "o1", 2)
                await live.settled(raised)
    owner = named(live, Duty.OWNER)
    [line] = {line for line in told if "waits to be built by" in line}
    assert f"Run `projectionist rebuild APP {definition(raised).name}` with this code as {owner}" in line


async def test_the_session_of_another_role_is_not_ended_and_who_waits_goes_on(
    live: ConsumerHarness, told: list[str]
) -> None:
    """A role that may write `runners` could otherwise have a more powerful one end sessions of its choice."""
    await live.migrate(shop(live.stream).Orders)
    async with with_duties(live) as urls:
        victim = await asyncpg.connect(
            urls[Duty.OWNER], server_settings={"application_name": "projectionist x"}
        )
        waiting = await asyncpg.connect(urls[Duty.RUNNER])
        pool = await asyncpg.create_pool(urls[Duty.RUNNER], min_size=1, max_size=2)
        await live.pool.execute(
            f"""insert into {SCHEMA}.runners (consumer, instance, host, pid, beat, backends)
            values (1, gen_random_uuid(), 'h', 1, now() + interval '1 s', array[{victim.get_server_pid()}])"""
        )
        await live.pool.execute(f"update {SCHEMA}.runners set beat = clock_timestamp()")
        peers = DeadSessions(pool.acquire, SCHEMA, 0.001)
        async with victim.transaction():
            await victim.execute(f"lock table {SCHEMA}.consumers")
            async with peers.terminating_blockers(waiting.get_server_pid()):
                with pytest.raises(asyncpg.LockNotAvailableError):
                    await waiting.execute(
                        f"set lock_timeout = '1s'; update {SCHEMA}.consumers set epoch = epoch"
                    )
            assert await victim.fetchval("select 1") == 1
        await live.pool.execute(f"revoke select on {SCHEMA}.runners from {named(live, Duty.RUNNER)}")
        async with peers.terminating_blockers(waiting.get_server_pid()):

            async def looked() -> bool:
                return any("cannot be looked at: permission denied" in line for line in told)

            await eventually(looked)
        for one in (victim, waiting, pool):
            await one.close()


async def test_a_read_model_that_is_made_later_has_the_rights_of_the_roles_on_record(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with with_duties(live) as urls:
        async with working_as(live, urls[Duty.OWNER]):
            await live.migrate(s.Orders, s.Spend)
        async with working_as(live, urls[Duty.RUNNER]):
            await live.publish(OrderPlaced("ann", 1), "o1", 1)
            await live.publish(OrderPaid(), "o1", 2)
            await live.settle(s.Orders, s.Spend)
        reader = await asyncpg.connect(urls[Duty.READER])
        assert await reader.fetchval("select count(*) from public.spend") == 1
        await reader.close()


async def test_a_runner_has_every_right_that_events_of_all_kinds_take(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend, s.Journal, s.Mailer)
    tuned(live, run={"heartbeat_s": 0.2})
    async with with_duties(live) as urls, working_as(live, urls[Duty.RUNNER]):
        s.trouble.poison.add("bad")
        with listening() as heard:
            async with live.running(s.Orders, s.Spend, s.Journal, s.Mailer, processes=2):
                for number in range(5):
                    await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, id=f"p{number}")
                    await live.publish(OrderPaid(), f"o{number}", 3, id=f"late{number}")
                    await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, id=f"p{number}")
                await live.publish(OrderNoted("bad"), "o0", 2, id="bad")
                for number in range(1, 5):
                    await live.publish(OrderNoted("fine"), f"o{number}", 2, id=f"gap{number}")
                await live.publish_raw(b"{", {"ce-id": "odd"}, "o9")
                await heard.wait("heart.beat", 4)
                await live.settled(s.Orders, s.Spend, s.Journal, s.Mailer)
        assert await inspection.count(live, "parked") > 0
        assert await inspection.count(live, "quarantine") > 0
    live.tampered = True


async def test_the_background_purge_of_a_runner_leaves_the_audit_to_the_owner(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    async with with_duties(live) as urls:
        env = dict(environment(live, retention__purge_interval_s="1", retention__audit_retention_s="1")) | {
            "PROJECTIONIST_POSTGRES__URL": urls[Duty.RUNNER]
        }
        async with projectionist("run", APP, env=env) as child:
            await child.heard("purge.done", 2)
            assert (
                child.err.count("nothing of the audit trail goes: its acts are removed by who owns it") == 1
            )


async def test_a_stranger_that_holds_the_barrier_is_named_in_the_log(
    live: ConsumerHarness, told: list[str]
) -> None:
    cls = shop(live.stream).Orders
    await live.migrate(cls)
    tuned(live, postgres={"lock_s": 0.5})
    stranger = await asyncpg.connect(live.database, server_settings={"application_name": "a report"})
    pid = stranger.get_server_pid()
    async with live.running(cls):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(cls)
        with listening() as heard:
            await stranger.execute(f"select pg_advisory_lock({barrier_key(SCHEMA, 1)})")
            await live.publish(OrderPaid(), "o1", 2)
            await heard.wait("peers.stranger")
        await stranger.close()
        await live.settled(cls)
    named_there = f"session {pid} of role postgres (a report), which is not ours"
    assert any(named_there in line for line in told)

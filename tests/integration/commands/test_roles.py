"""`projectionist roles`: the least grants, planned and applied, and what stands in the way."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from tests.integration.doctor.test_doctor import examined, waits
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.duties import with_duties, working_as
from tests.support.process import ROOT
from tests.support.rebuilding import RebuildHarness
from tests.support.roles import plain
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop

from projectionist.core.postgres.rights import TABLE_RIGHTS, Duty
from projectionist.ops.doctor import roles as doctor
from projectionist.projections import Projection, on
from projectionist.runner.database.barrier import barrier_key

pytestmark = pytest.mark.asyncio

PAGE = ROOT / "docs" / "operations" / "roles.md"


@asynccontextmanager
async def made(live: ConsumerHarness, *names: str) -> AsyncIterator[dict[str, str]]:
    """Roles without any right, and the database's URL for each."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(plain(live, name)) for name in names}


async def test_a_plan_changes_nothing_and_an_apply_twice_changes_nothing_more(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli = Cli(live, tmp_path)
    await live.migrate(shop(live.stream).Orders)
    async with made(live, "a_runner", "a_reader"):
        words = ("--runner", "a_runner", "--reader", "a_reader")
        planned = await cli.done("roles", "plan", *words)
        assert 'grant select on public.orders to "a_reader";' in planned
        assert f'grant delete, insert, select, update on {SCHEMA}.orders__g1 to "a_runner";' in planned
        assert not await live.value(f"select has_table_privilege('a_runner', '{SCHEMA}.inbox', 'select')")

        applied = await cli.seen("roles", "apply", *words)
        assert applied["applied"]
        assert {one["role"] for one in applied["grants"]} == {"a_runner", "a_reader"}
        [act] = await inspection.rows(live, "audit", "who", "reason", action="roles")
        assert act == ("ann", "projectionist roles apply")
        for again in (("plan",), ("apply",), ("apply", *words)):
            assert "-- Nothing is lacking." in await cli.done("roles", *again)
        assert await inspection.count(live, "audit", action="roles") == 1
        assert (await cli.seen("roles", "plan"))["duties"] == {"reader": ["a_reader"], "runner": ["a_runner"]}


async def test_rights_beyond_a_duty_are_shown_and_taken_only_where_that_is_said(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli = Cli(live, tmp_path)
    await live.migrate(shop(live.stream).Orders)
    async with made(live, "ann", "bob"):
        await cli.done("roles", "apply", "--operator", "ann", "--operator", "bob")
        await live.pool.execute(f"grant delete on {SCHEMA}.audit to ann")
        ended = await cli.run("roles", "apply", "--operator", "ann")
        assert ended.code == 3
        assert f'-- revoke delete on {SCHEMA}.audit from "ann";' in ended.out
        assert f'-- revoke usage on schema {SCHEMA} from "bob";' in ended.out
        assert await live.value(f"select has_table_privilege('ann', '{SCHEMA}.audit', 'delete')")

        ended = await cli.run("roles", "apply", "--operator", "ann", "--observer", "bob", "--revoke")
        assert ended.code == 0
        assert not await live.value(f"select has_table_privilege('ann', '{SCHEMA}.audit', 'delete')")
        assert await live.value(f"select has_table_privilege('bob', '{SCHEMA}.audit', 'select')")
        assert not await live.value(f"select has_table_privilege('bob', '{SCHEMA}.audit', 'insert')")


async def test_rights_on_columns_and_rights_to_grant_are_beyond_a_duty_too(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli = Cli(live, tmp_path)
    await live.migrate(shop(live.stream).Orders)
    async with made(live, "ann", "stranger"):
        await cli.done("roles", "apply", "--operator", "ann")
        await live.pool.execute(
            f"""grant update (who), select (who) on {SCHEMA}.audit to ann;
            grant select on {SCHEMA}.audit to ann with grant option;
            set role ann; grant select on {SCHEMA}.audit to stranger; reset role"""
        )
        ended = await cli.run("roles", "plan")
        assert ended.code == 3
        assert [line for line in ended.out.splitlines() if line.startswith("-- revoke")] == [
            f'-- revoke update (who) on {SCHEMA}.audit from "ann";',
            f'-- revoke grant option for select on {SCHEMA}.audit from "ann" cascade;',
        ]
        await cli.done("roles", "apply", "--revoke")
        assert "-- Nothing is lacking." in await cli.done("roles", "plan")
        assert await live.value(f"select has_table_privilege('ann', '{SCHEMA}.audit', 'select')")
        for role, asked in (("ann", "update"), ("stranger", "select")):
            assert not await live.value(
                f"select has_any_column_privilege('{role}', '{SCHEMA}.audit', '{asked}')"
            )


async def test_a_revoke_of_what_another_role_has_granted_is_no_success(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    """PostgreSQL says nothing where the one who revokes is not the one who has granted."""
    cli = Cli(live, tmp_path)
    await live.migrate(shop(live.stream).Orders)
    async with made(live, "ann", "bob", "stranger"):
        await cli.done("roles", "apply", "--operator", "ann")
        await live.pool.execute(
            f"""grant delete on {SCHEMA}.audit to stranger with grant option;
            grant usage on schema {SCHEMA} to stranger;
            set role stranger; grant delete on {SCHEMA}.audit to ann; reset role"""
        )
        for has_the_duty_afterwards in ("ann", "bob"):
            told = await cli.refused("roles", "apply", "--operator", has_the_duty_afterwards, "--revoke")
            assert f'a revoke without effect: revoke delete on {SCHEMA}.audit from "ann"' in told
        await live.pool.execute(f"revoke all on {SCHEMA}.audit from stranger cascade")


async def test_a_role_that_is_not_there_is_named_with_the_statement_that_makes_it(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    told = await Cli(live, tmp_path).refused("roles", "apply", "--runner", 'we"ird')
    assert told.startswith("there is no role 'we\"ird' in the database")
    assert 'create role "we""ird" login' in told


async def test_an_owner_that_is_named_is_given_everything_and_works_from_then_on(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    live = rebuilds.harness
    cls = shop(live.stream).Orders
    await live.migrate(cls)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with made(live, "an_owner") as urls:
        await live.pool.execute("grant create on schema public to an_owner")
        cli = Cli(live, tmp_path)
        told = await cli.done("roles", "apply", "--owner", "an_owner")
        assert f"alter schema {SCHEMA} owner to an_owner;" in told
        assert "alter view public.orders owner to an_owner;" in told
        async with working_as(live, urls["an_owner"]):
            await live.settle(cls)
            await rebuilds.rebuild(cls)
        assert await rebuilds.generation(cls) == 2
        assert "-- Nothing is lacking." in await cli.done("roles", "plan")


async def test_who_is_not_the_owner_cannot_give_rights_and_changes_nothing(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await live.migrate(shop(live.stream).Orders)
    async with with_duties(live) as urls, made(live, "another"):
        cli = Cli(live, tmp_path, PROJECTIONIST_POSTGRES__URL=urls[Duty.OPERATOR])
        told = await cli.refused("roles", "apply", "--reader", "another")
        assert "run it as 'owner_" in told or "Run this as the owner of the tables" in told
        assert not await live.value("select has_table_privilege('another', 'public.orders', 'select')")


async def test_each_right_of_a_duty_is_on_a_table_that_is_there(live: ConsumerHarness) -> None:
    there = {
        row[0]
        for row in await live.fetch(
            "select relname::text from pg_class where relnamespace = '{s}'::regnamespace"
        )
    }
    assert {table for rights in TABLE_RIGHTS.values() for table in rights} <= there


def _blocks() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", [0, 1])
async def test_each_way_of_the_page_shows_a_tenant_its_own_rows_through_rebuilds(
    rebuilds: RebuildHarness, block: int
) -> None:
    live = rebuilds.harness

    class OrderSummary(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="order_summary",
        key="order_id",
    ):
        order_id: str
        tenant: str = ""
        status: str = "new"

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.tenant = event.customer

    await live.migrate(OrderSummary)
    await live.publish(OrderPlaced("acme", 1), "o1", 1)
    await live.publish(OrderPlaced("globex", 1), "o2", 1)
    await live.settle(OrderSummary)
    async with with_duties(live) as urls, made(live, "acme", "globex", "shop_run") as tenants:
        await live.pool.execute(f"grant create on schema public to owner_{live.stream.name.lower()}")
        await live.pool.execute(f"grant shop_run to runner_{live.stream.name.lower()}")
        owner = await asyncpg.connect(urls[Duty.OWNER])
        await owner.execute(_blocks()[block])
        view = ("tenant_orders", "order_summary")[block]
        sessions = {name: await asyncpg.connect(tenants[name]) for name in ("acme", "globex")}
        for n, back_to in enumerate((None, 1, 2)):
            async with working_as(live, urls[Duty.OWNER]):
                await rebuilds.rebuild(OrderSummary, back_to=back_to)
            async with working_as(live, urls[Duty.RUNNER]):
                await live.publish(OrderPlaced("acme", 1), f"more{n}", 1)
                await live.settle(OrderSummary)
            for name, more in (("acme", n + 1), ("globex", 0)):
                assert len(await sessions[name].fetch(f"select order_id from {view}")) == 1 + more
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await sessions["acme"].fetch(f"select * from {SCHEMA}.inbox")
        for session in (owner, *sessions.values()):
            await session.close()


async def test_the_doctor_names_rights_of_everybody_and_what_takes_them(live: ConsumerHarness) -> None:
    cls = shop(live.stream).Orders
    await live.migrate(cls)
    await live.pool.execute(
        f"grant create on schema public to public; grant select on {SCHEMA}.inbox to public"
    )
    found = waits(await examined(live, cls))
    assert "every role may create in schema 'public'" in found["roles: search path"].found
    assert f"every role has rights on {SCHEMA}.inbox" in found["roles: public"].found
    for name in ("search path", "public"):
        await live.pool.execute(found[f"roles: {name}"].mend)
    assert not {name for name in waits(await examined(live, cls)) if name.startswith("roles")}


async def test_the_doctor_names_a_runner_that_owns_the_tables_and_a_role_that_lacks_rights(
    live: ConsumerHarness,
) -> None:
    cls = shop(live.stream).Orders
    await live.migrate(cls)
    async with with_duties(live) as urls:
        assert not {name for name in waits(await examined(live, cls)) if name.startswith("roles")}
        await live.pool.execute(f"revoke update on {SCHEMA}.parked from runner_{live.stream.name.lower()}")
        lacking = waits(await examined(live, cls))["roles: rights"]
        assert f"grant update on {SCHEMA}.parked" in lacking.found
        async with working_as(live, urls[Duty.OWNER]), live.running(cls):
            await live.publish(OrderPlaced("ann", 1), "o1", 1)
            await live.settled(cls)
            [check] = [
                one
                for one in (await examined(live, cls)).checks
                if (one.about, one.name) == ("roles", "runner")
            ]
            assert f"runners work as 'owner_{live.stream.name.lower()}'" in check.found
    facts = {"owning": ["root"], "local": False}
    assert [one.level for one in doctor._owning(facts)] == ["attention"]


async def test_the_doctor_names_a_stranger_who_holds_a_lock_of_ours(live: ConsumerHarness) -> None:
    cls = shop(live.stream).Orders
    await live.migrate(cls)
    stranger = await asyncpg.connect(live.database)
    await stranger.execute(f"select pg_advisory_lock({barrier_key(SCHEMA, 1)})")
    check = waits(await examined(live, cls))["roles: locks"]
    assert (
        f"session {stranger.get_server_pid()} of role 'postgres' (without a name) holds a lock of ours"
        in check.found
    )
    await stranger.close()

"""The audit trail is appended to and nothing else; what was changed past that shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.retention import DAY, age, purge
from tests.support.roles import plain
from tests.support.scrape import free_port
from tests.support.servers import SCHEMA
from tests.support.shop import shop
from tests.support.waiting import HANG_S, eventually

from projectionist.core.operator import Act
from projectionist.core.postgres.connections import os_user
from projectionist.migrations.catalog import released
from projectionist.runner.admin.audit_chain import VerifiedChain, verify
from projectionist.runner.admin.pause import pause, resume

pytestmark = pytest.mark.asyncio

ACT = """insert into {s}.audit (who, action, object, reason, detail)
    values ($1, 'skip', 'Orders: o1', 'größer', '{"a": [1, null]}')"""
LOOSE = "alter table {s}.audit disable trigger user; alter table {s}.audit_chain disable trigger user"


async def act(live: ConsumerHarness, many: int = 1) -> None:
    for n in range(many):
        await live.pool.execute(ACT.replace("{s}", SCHEMA), f"ann {n}")


async def verified(live: ConsumerHarness, **known: str) -> VerifiedChain:
    async with live.connected() as connection:
        return await verify(connection, SCHEMA, known={int(place[1:]): text for place, text in known.items()})


async def tamper(live: ConsumerHarness, sql: str) -> None:
    """What the owner of the tables can do, who is held by no right and no trigger."""
    await live.pool.execute(f"{LOOSE}; {sql}".replace("{s}", SCHEMA))


@asynccontextmanager
async def acting(live: ConsumerHarness) -> AsyncIterator[asyncpg.Connection]:
    """A session of a role that may act, and nothing else."""
    async with plain(live, "an_actor") as url:
        await live.pool.execute(
            f"grant usage on schema {SCHEMA} to an_actor; grant insert on {SCHEMA}.audit to an_actor"
        )
        actor = await asyncpg.connect(url)
        try:
            yield actor
        finally:
            await actor.close()


async def test_each_act_bears_who_was_logged_in_and_the_chain_is_sound(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.access.lend() as connection:
        await pause(connection, SCHEMA, "Orders", Act("ceo", "because"))
        await resume(connection, SCHEMA, "Orders", Act("ceo", "because"))
    named = ("who", "session_role", "client", "os_user")
    [first, _] = await inspection.rows(live, "audit", *named, order="number")
    assert first == ("ceo", await live.value("select session_user::text"), "127.0.0.1", os_user())
    found = await verified(live)
    assert (found.acts, found.first, found.place, found.broken) == (2, 1, 2, None)


async def test_what_a_client_says_about_witnessed_columns_is_not_taken(live: ConsumerHarness) -> None:
    await live.pool.execute(
        f"""insert into {SCHEMA}.audit (who, action, object, reason, at, session_role, client, os_user)
        values ('eve', 'skip', 'x', 'y', '2000-01-01', 'ann', '8.8.8.8', 'ann')"""
    )
    [row] = await live.fetch(
        "select at > now() - interval '1 hour', session_role = session_user from {s}.audit"
    )
    assert row == (True, True)
    assert await inspection.rows(live, "audit", "client", "os_user") == [("127.0.0.1", None)]


@pytest.mark.parametrize("table", ["audit", "audit_chain", "audit_head"])
@pytest.mark.parametrize("change", ["update {t} set {c} = {c}", "delete from {t}", "truncate {t}"])
async def test_a_change_of_the_trail_is_refused_even_for_its_owner(
    live: ConsumerHarness, table: str, change: str
) -> None:
    await act(live)
    column = "who" if table == "audit" else "hash"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="appended to and nothing else"):
        await live.pool.execute(change.format(t=f"{SCHEMA}.{table}", c=column))
    assert (await verified(live)).broken is None


@pytest.mark.parametrize(
    ("change", "broken", "number"),
    [
        ("update {s}.audit set who = 'eve' where number = 2", "act 2 at place 2 was changed", 2),
        (
            "update {s}.audit set at = at + interval '1 us' where number = 2",
            "act 2 at place 2 was changed",
            2,
        ),
        ("update {s}.audit set session_role = null where number = 2", "act 2 at place 2 was changed", 2),
        ("delete from {s}.audit where number = 2", "act 2 at place 2 was removed", 2),
        (
            "delete from {s}.audit where number = 2; delete from {s}.audit_chain where number = 2",
            "act 3 is at place 3, and place 2 is empty",
            3,
        ),
        (
            "delete from {s}.audit where number = 1; delete from {s}.audit_chain where number = 1",
            "act 2 is at place 2, and place 1 is empty",
            2,
        ),
        (
            "delete from {s}.audit where number > 1; delete from {s}.audit_chain where number > 1",
            "its end was removed",
            None,
        ),
        (
            "insert into {s}.audit (number, who, action, object, reason) values (4, 'eve', 'skip', 'x', 'y')",
            "act 4 is in no chain",
            4,
        ),
    ],
)
async def test_what_was_changed_past_the_triggers_is_found_at_its_first_row(
    live: ConsumerHarness, change: str, broken: str, number: int | None
) -> None:
    await act(live, 3)
    await tamper(live, change)
    found = await verified(live)
    assert broken in str(found.broken)
    assert found.number == number


async def test_a_chain_made_anew_is_told_by_a_hash_that_was_kept(live: ConsumerHarness) -> None:
    await act(live, 3)
    before = await verified(live)
    await act(live)
    assert (await verified(live, p3=before.hash)).broken is None
    await tamper(
        live,
        """update {s}.audit set who = 'eve' where number = 3;
        update {s}.audit_chain c set hash = {s}.audit_hash(b.hash, a) from {s}.audit_chain b, {s}.audit a
            where b.place = 2 and c.place = 3 and a.number = 3;
        update {s}.audit_chain c set hash = {s}.audit_hash(b.hash, a) from {s}.audit_chain b, {s}.audit a
            where b.place = 3 and c.place = 4 and a.number = 4;
        alter table {s}.audit_head disable trigger user;
        update {s}.audit_head set hash = (select hash from {s}.audit_chain where place = 3)""",
    )
    assert (await verified(live)).broken is None, "whoever may do everything can make it all anew"
    assert "made anew" in str((await verified(live, p3=before.hash)).broken)


async def test_acts_of_many_sessions_at_once_make_one_chain(live: ConsumerHarness) -> None:
    """Each locks something of the other before and after its act: the chain must not be part of a circle."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)

    async def verbs(n: int) -> None:
        one, other = ("Orders", "Spend") if n % 2 else ("Spend", "Orders")
        async with live.connected() as connection:
            for _ in range(10):
                await connection.execute(ACT.replace("{s}", SCHEMA), f"alone {n}")
                async with connection.transaction():
                    await connection.execute(ACT.replace("{s}", SCHEMA), f"before {n}")
                    for name in sorted((one, other)):
                        await connection.execute(
                            f"update {SCHEMA}.consumers set paused = not paused where name = $1", name
                        )
                        await connection.execute(ACT.replace("{s}", SCHEMA), f"about {name}")

    await asyncio.gather(*(verbs(n) for n in range(6)))
    found = await verified(live)
    assert (found.acts, found.broken) == (6 * 10 * 4, None)


async def test_an_act_that_waits_for_a_row_keeps_no_other_act_waiting(live: ConsumerHarness) -> None:
    """The chain is locked in the commit alone: an open transaction that has acted holds nothing of it."""
    async with live.connected() as slow, slow.transaction():
        await slow.execute(ACT.replace("{s}", SCHEMA), "slow")
        await asyncio.wait_for(act(live), HANG_S)
    # The one that was begun first has its place behind the one that was committed first.
    assert await inspection.rows(live, "audit_chain", "number", order="place") == [(2,), (1,)]
    assert (await verified(live)).broken is None


async def test_a_purge_leaves_a_chain_that_begins_where_it_says(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await act(live, 3)
    await age(live, 40)
    await tamper(live, "")
    await live.pool.execute(
        f"""update {SCHEMA}.audit_chain c set hash = '' where true;
        do $$ declare h bytea := decode(repeat('00', 32), 'hex'); a {SCHEMA}.audit; begin
            for a in select * from {SCHEMA}.audit order by number loop
                h := {SCHEMA}.audit_hash(h, a); update {SCHEMA}.audit_chain set hash = h where number = a.number;
                if a.number = 2 then
                    alter table {SCHEMA}.audit_head disable trigger user;
                    update {SCHEMA}.audit_head set place = 2, hash = h;
                    alter table {SCHEMA}.audit_head enable trigger user;
                end if;
            end loop; end $$;
        alter table {SCHEMA}.audit enable trigger user; alter table {SCHEMA}.audit_chain enable trigger user"""
    )
    assert (await verified(live)).broken is None
    await act(live)
    for _ in range(3):  # what a purge says itself is no reason for the next one
        await purge(live, s.Orders, audit_retention_s=30 * DAY)
    assert await inspection.rows(live, "audit", "action", order="number") == [("skip",), ("purge-audit",)]
    found = await verified(live)
    assert (found.acts, found.first, found.place, found.broken) == (2, 4, 5, None)
    await tamper(live, "delete from {s}.audit where number = 4; delete from {s}.audit_chain where place = 4")
    assert "place 4 is empty" in str((await verified(live)).broken)


async def test_acts_from_before_the_chain_take_their_places_in_it(live: ConsumerHarness) -> None:
    steps = {migration.name[5:]: migration.sql for migration in released("older")}
    async with live.connected() as connection:
        await connection.execute("create schema older")
        for name, sql in steps.items():
            if name == "audit_chain":
                await connection.execute(
                    """insert into older.audit (who, action, object, reason)
                    values ('a', 'b', 'c', 'd'), ('e', 'f', 'g', 'h')"""
                )
            await connection.execute(sql)
        await connection.execute(
            "insert into older.audit (who, action, object, reason) values ('i', 'j', 'k', 'l')"
        )
        found = await verify(connection, "older")
    assert (found.acts, found.broken) == (3, None)


async def test_a_role_that_may_insert_alone_acts_and_cannot_read_or_change(live: ConsumerHarness) -> None:
    async with acting(live) as actor:
        await actor.execute(ACT.replace("{s}", SCHEMA), "ceo")
        for change in (
            "update {s}.audit set who = 'x'",
            "delete from {s}.audit",
            "table {s}.audit_chain",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await actor.execute(change.replace("{s}", SCHEMA))
        assert await inspection.rows(live, "audit", "session_role") == [("an_actor",)]
        assert (await verified(live)).broken is None


async def test_a_number_that_a_client_has_chosen_is_not_taken(live: ConsumerHarness) -> None:
    """A small one would hide the act from who looks at the newest, and the next ones would stop everybody's acts."""
    await act(live, 2)
    async with acting(live) as actor:
        for number in (-5, 3):
            with suppress(asyncpg.PostgresError):  # where it is refused, it is not taken either
                await actor.execute(
                    f"""insert into {SCHEMA}.audit (number, who, action, object, reason)
                    overriding system value values ($1, 'eve', 'skip', 'x', 'y')""",
                    number,
                )
    await act(live, 2)
    assert await inspection.rows(live, "audit", "number", "who", order="number") == [
        (1, "ann 0"),
        (2, "ann 1"),
        (3, "eve"),
        (4, "eve"),
        (5, "ann 0"),
        (6, "ann 1"),
    ]
    assert (await verified(live)).broken is None


@pytest.mark.parametrize("detail", ['{"place": "x", "hash": "zz"}', '{"place": 1, "hash": "00"}', "{}"])
async def test_who_may_remove_no_act_may_not_say_where_the_chain_begins(
    live: ConsumerHarness, detail: str
) -> None:
    forged = f"""insert into {SCHEMA}.audit (who, action, object, reason, detail)
        values ('projectionist', 'purge-audit', 'audit', 'audit_retention_s', $1)"""
    await act(live)
    async with acting(live) as actor:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="an_actor may not say"):
            await actor.execute(forged, detail)
    assert (await verified(live)).acts == 1
    await live.pool.execute(
        forged, detail
    )  # nor does it keep anybody from verifying where the owner wrote it
    assert ((await verified(live)).acts, (await verified(live)).broken) == (2, None)


async def test_verify_says_what_is_broken_and_what_to_keep(live: ConsumerHarness, tmp_path: Path) -> None:
    cli = Cli(live, tmp_path)
    await live.migrate(shop(live.stream).Orders)
    await cli.done("pause", "Orders", "--reason", "moved")
    [told] = (await cli.done("audit", "--verify")).splitlines()
    kept = told.rpartition(" ")[2]
    assert told.startswith("1 acts, none changed or removed. Keep elsewhere: 1:"), told
    assert (await cli.run("audit", "--verify", "--kept", kept)).code == 0
    await tamper(live, "update {s}.audit set who = 'eve'")
    ended = await cli.run("audit", "--verify", "--kept", kept)
    assert (ended.code, ended.out) == (3, "The audit trail is broken: act 1 at place 1 was changed.\n")


async def test_an_observer_writes_each_act_to_its_log_with_its_hash(live: ConsumerHarness) -> None:
    await act(live)
    env = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
        "PROJECTIONIST_TELEMETRY__EXPORTER": "prometheus",
        "PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{free_port()}",
        "PROJECTIONIST_TELEMETRY__METRICS_INTERVAL_S": "0.2",
        "PROJECTIONIST_TELEMETRY__AUDIT_LOG": "true",
    }
    async with projectionist("observe", env=env) as child:
        await child.heard("audit.logged")
        await act(live)
        found = await verified(live)

        async def copied() -> bool:
            return found.hash in child.err

        await eventually(copied)
        assert child.err.count("INFO    act {") == 2

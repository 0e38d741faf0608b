"""A real pgbouncer between: in session mode all works as without, in transaction mode with `direct_url` beside."""

from __future__ import annotations

import signal
from pathlib import Path

import asyncpg
import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import Load, tuned
from tests.support.outbox import outbox
from tests.support.pooler import pooler
from tests.support.process import projectionist
from tests.support.servers import SCHEMA, Servers
from tests.support.shop import shop
from tests.support.shop_app import APP, environment
from tests.support.stub_provider import stub_provider
from tests.support.waiting import HANG_S, listening

from projectionist.core.postgres import connections
from projectionist.core.postgres.connections import DatabaseRefusedError
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres
from projectionist.ops.doctor.examine import examine
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

_IGNORED = ",".join(sorted({*connections.SESSION, "lock_timeout", "statement_timeout"} - {"timezone"}))


@pytest.mark.parametrize("ignored", ["", _IGNORED], ids=["plain", "told to ignore what it does not know"])
async def test_behind_a_pooler_in_session_mode_our_limits_are_in_force(
    servers: Servers, database: str, ignored: str
) -> None:
    with pooler(servers, database, "session", ignore_startup_parameters=ignored) as url:
        connection = await connections.connect(Postgres(url=Url(url)), application_name="projectionist test")
        try:
            wanted = {**connections.SESSION, "application_name": "projectionist test", "lock_timeout": "8s"}
            for name, value in wanted.items():
                assert await connection.fetchval("select current_setting($1)", name) == value, name
        finally:
            await connection.close()


async def test_the_backend_of_a_connection_is_the_servers_number_and_not_the_poolers(
    servers: Servers, database: str
) -> None:
    with pooler(servers, database, "session") as url:
        connection = await connections.connect(Postgres(url=Url(url)), application_name="test")
        try:
            assert connection.get_server_pid() == await connection.fetchval("select pg_backend_pid()")
        finally:
            await connection.close()


async def test_a_session_that_somebody_used_before_is_ours_again_with_our_limits(
    servers: Servers, database: str
) -> None:
    """With one session behind it the pooler hands it on, emptied."""
    with pooler(servers, database, "session", default_pool_size="1") as url:
        for _ in range(2):
            connection = await asyncpg.connect(url)
            await connection.execute("set lock_timeout = '77s'; set jit = on")
            await connection.close()
            pool = await connections.pool(Postgres(url=Url(url)), application_name="test", most=1)
            async with pool:
                for _ in range(2):
                    async with pool.acquire() as lent:
                        assert await lent.fetchval("show lock_timeout") == "8s"
                        assert await lent.fetchval("show jit") == "off"


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_a_pooler_that_lends_sessions_for_less_is_refused_with_what_to_do(
    servers: Servers, database: str, mode: str, busy: bool
) -> None:
    options = {"server_round_robin": "1"} if busy else {}
    with pooler(servers, database, mode, ignore_startup_parameters=_IGNORED, **options) as url:
        others = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(3 if busy else 0)]
        for other in others:
            await other.execute("select pg_sleep(0.01)")
        settings = Postgres(url=Url(url), schema=SCHEMA)
        with pytest.raises(
            DatabaseRefusedError, match=r"pooler.*transaction.*session mode.*direct_url.*server itself"
        ):
            await connections.connect(settings, application_name="test")
        with pytest.raises(DatabaseRefusedError, match="pooler"):
            await connections.pool(settings, application_name="test", most=4)
        for other in others:
            await other.close()


async def test_processes_work_behind_a_pooler_and_one_that_sleeps_in_a_batch_stops_nobody(
    live: ConsumerHarness,
) -> None:
    """Who keeps others waiting is found by the server's number of its session, and ended."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(20)
    with pooler(live.servers, live.database, "session", default_pool_size="60") as url:
        tuned(
            live,
            url=url,
            postgres={"lock_s": 1.0},
            run={"heartbeat_s": 1.0},
            policy={"ack_wait_s": 5.0},
            rows=5,
        )
        env = environment(live, postgres__url=url, run__heartbeat_s="1", batch__max_rows="5")
        async with projectionist("run", APP, env=env, pause_at={"batch.written": 1}) as sleeper:
            await sleeper.heard("batch.written")
            async with live.running(s.Orders, s.Spend, processes=2):
                await load.more(20)
                await live.settled(s.Orders, s.Spend)
                sleeper.signal(signal.SIGCONT)
                await sleeper.heard("batch.acked")
                await load.more(10)
                await live.settled(s.Orders, s.Spend)
            sleeper.signal(signal.SIGTERM)
            assert (await sleeper.ended()).code == 0
    await load.check()


async def test_a_session_that_is_lent_is_not_warmed_up(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    with (
        pooler(live.servers, live.database, "transaction", default_pool_size="10") as url,
        listening() as heard,
    ):
        tuned(live, url=url, postgres={"direct_url": Url(live.database)})
        async with live.running(s.Orders, s.Spend):
            await load.more(5)
            await live.settled(s.Orders, s.Spend)
    assert heard.counts["batch.acked"]
    assert heard.counts["session.warmed"] == 0
    await load.check()


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_a_relay_sends_behind_a_pooler(
    servers: Servers, database: str, tmp_path: Path, mode: str
) -> None:
    async with outbox(database) as harness, stub_provider() as stub:
        size = "2" if mode == "transaction" else "20"
        with pooler(servers, database, mode, default_pool_size=size) as url:
            direct = f'direct_url = "{database}"' if mode == "transaction" else ""
            (tmp_path / "projectionist.toml").write_text(f"""
                [postgres]
                url = "{url}"
                {direct}
                [providers.payments]
                url = "{stub.url()}"
                private_hosts = ["127.0.0.1"]
                profile = "stripe-v2"
            """)
            async with projectionist("relay", "tests.support.relay_app:payments", cwd=tmp_path) as relay:
                await relay.heard("relay.listening")
                for n in range(10):
                    await harness.want("payments", lane=f"order/{n % 2}")
                await harness.all_become("sent")
                relay.signal(signal.SIGTERM)
                assert (await relay.ended()).code == 0


@pytest.mark.parametrize("command", ["run", "relay", "migrate"])
async def test_every_command_refuses_a_pooler_in_transaction_mode_and_says_what_to_do(
    live: ConsumerHarness, command: str
) -> None:
    app = "tests.support.relay_app:events" if command == "relay" else APP
    with pooler(live.servers, live.database, "transaction") as url:
        env = environment(live, postgres__url=url)
        async with projectionist(command, app, env=env) as child:
            ended = await child.ended()
    assert ended.code == 1
    assert "pool_mode = session" in ended.err
    assert "postgres.direct_url" in ended.err
    assert "Traceback" not in ended.err


async def test_every_command_works_with_a_pooler_and_the_server_itself_beside_it(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    with pooler(live.servers, live.database, "transaction", default_pool_size="4") as url:
        env = environment(live, postgres__url=url, postgres__direct_url=live.database)
        cli = Cli(live, tmp_path, **env)
        await cli.done("migrate", APP)
        async with projectionist("run", APP, env=env) as child:
            await child.heard("worker.running", 2)
            load = Load(live, s)
            await load.more(10)
            await live.settled(s.Orders, s.Spend)
            assert len((await cli.seen("status"))["consumers"]) == 2
            await cli.done("rebuild", APP, "Orders")
            await cli.done("verify", APP, "Orders")
            await cli.done("pause", "Spend", "--reason", "a look")
            await cli.done("resume", "Spend", "--reason", "seen")
            tuned(live, url=url, postgres={"direct_url": Url(live.database)})
            app = App(projections=[s.Orders], settings=live.settings)
            assert (await app.wait_for(s.Orders, "order/o00001", 2, timeout_s=HANG_S)).is_applied
            checks = (await examine(App(), (), live.settings)).checks
            child.signal(signal.SIGTERM)
            assert (await child.ended()).code == 0
    await load.check()
    (one,) = [check for check in checks if (check.about, check.name) == ("postgres", "pooler")]
    assert one.level == "well"
    assert live.database.rpartition("/")[2] in one.found


async def test_the_doctor_says_what_is_wrong_with_the_two_urls(live: ConsumerHarness) -> None:
    async def found(url: str) -> tuple[str, str]:
        tuned(live, url=url, postgres={"direct_url": Url(live.database)})
        checks = (await examine(App(), (), live.settings)).checks
        (one,) = [check for check in checks if (check.about, check.name) == ("postgres", "pooler")]
        return one.level, one.found

    elsewhere = live.servers.make_database()
    try:
        with pooler(live.servers, elsewhere, "transaction") as url:
            level, said = await found(url)
            assert (level, "two databases" in said) == ("attention", True)
    finally:
        live.servers.drop_database(elsewhere)
    with pooler(live.servers, live.database, "statement") as url:
        level, said = await found(url)
        assert (level, "transaction or a statement" in said) == ("attention", True)
    level, said = await found(live.database)
    assert (level, "no pooler is seen" in said) == ("note", True)


@pytest.mark.parametrize(
    ("mode", "found"),
    [("session", ("pooler", "note")), ("transaction", ("connection", "attention"))],
)
async def test_the_doctor_says_which_pooler_it_meets(
    live: ConsumerHarness, mode: str, found: tuple[str, str]
) -> None:
    with pooler(live.servers, live.database, mode) as url:
        tuned(live, url=url)
        checks = (await examine(App(), (), live.settings)).checks
    one = next(check for check in checks if check.about == "postgres" and check.name == found[0])
    assert (one.name, one.level) == found
    assert "pooler" in one.found

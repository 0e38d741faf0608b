"""`projectionist purge` and the purge in the background, as real processes; and where they may die."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Ended, projectionist
from tests.support.retention import age
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually

from projectionist.core.postgres.statements import Statements

pytestmark = pytest.mark.asyncio


async def old(live: ConsumerHarness, orders: int = 3) -> None:
    """So many events of two consumers, settled long ago."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    for number in range(orders):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    await live.settle(s.Orders, s.Spend)
    await age(live, 31)


async def purged(live: ConsumerHarness, *arguments: str, **more: str) -> Ended:
    async with projectionist("purge", APP, *arguments, env={**environment(live), **more}) as child:
        return await child.ended()


def archived_in(folder: Path) -> list[str]:
    return [line for file in folder.glob("inbox/*.jsonl") for line in file.read_text().splitlines()]


async def test_a_dry_run_says_what_would_go_and_of_whom_nothing(live: ConsumerHarness) -> None:
    await old(live)
    ended = await purged(live, "--dry-run", PROJECTIONIST_CONSUMERS__Spend__LEGAL_HOLD="true")
    assert ended.code == 0, ended.err
    assert "inbox  Orders    3" in ended.out
    assert "Spend: nothing goes, legal hold" in ended.out
    assert await inspection.count_inbox(live) == 6


async def test_one_consumer_is_purged_by_name(live: ConsumerHarness) -> None:
    await old(live)
    shown = json.loads((await purged(live, "Orders", "--json")).out)
    assert shown["went"] == [{"table": "inbox", "consumer": "Orders", "rows": 3}]
    assert await inspection.count_inbox(live) == 3
    assert (await purged(live, "Nobody")).code == 1


async def test_a_purge_killed_before_its_commit_has_archived_and_removed_nothing_for_good(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await old(live)
    env = environment(live, retention__archive="files", retention__archive_folder=str(tmp_path))
    async with projectionist("purge", APP, env=env, kill_at={"purge.removed": 1}) as child:
        await child.ended()
    assert await inspection.count_inbox(live) == 6
    assert len(archived_in(tmp_path)) == 6

    assert (await purged(live, **env)).code == 0
    assert await inspection.count_inbox(live) == 0
    archived = archived_in(tmp_path)
    assert (len(archived), len(set(archived))) == (12, 6), "twice, and never not at all"


async def test_a_folder_that_cannot_be_written_is_told_once_and_keeps_the_rows(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await old(live)
    (tmp_path / "taken").write_text("")
    env = environment(live, retention__archive="files", retention__archive_folder=str(tmp_path / "taken"))
    ended = await purged(live, **env)
    assert ended.code == 1
    assert "nothing is removed. See to archive_folder of [retention]" in ended.err
    async with projectionist(
        "run", APP, env={**env, "PROJECTIONIST_RETENTION__PURGE_INTERVAL_S": "1"}
    ) as child:
        await child.said("nothing is removed")
        await child.heard("purge.failed", count=2)
        assert child.err.count("nothing is removed") == 1
    assert await inspection.count_inbox(live) == 6


async def test_running_processes_purge_in_the_background_one_at_a_time(live: ConsumerHarness) -> None:
    await old(live)
    env = environment(live, retention__purge_interval_s="1")
    async with projectionist("run", APP, env=env) as one, projectionist("run", APP, env=env) as other:
        for process in (one, other):
            await process.heard("worker.running")
        await inspection.reaches(0, inspection.count_inbox, live)

        async def told() -> bool:
            return "retention: 3 rows of inbox, Orders removed" in one.err + other.err

        await eventually(told)
        assert await live.value("select count(*) from {s}.leases where name like 'purge %'") == 1
        assert ("retention: 3 rows" in one.err) != ("retention: 3 rows" in other.err)


FILL = """
    insert into {s}.inbox (consumer, source, id, state, incarnation, seq, subject, type, event_schema,
        aggregate, version, hash, batch, received, processed)
    select 1, 'shop', 'id' || n, 'applied', 1, n, 's', 't', 1, 'order/' || n / 10, n % 10 + 1, '', 1, now(), now()
    from generate_series(1, 50000) n;
    insert into {s}.duplicates (consumer, incarnation, seq, source, id) select 1, 1, n, 'shop', 'id' || n
    from generate_series(1, 50000) n;
    insert into {s}.intents (key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash)
    select 'key' || n, 1, 'shop', 'id' || n, 's', 'c', 'p', 'd', 'pass', '', '' from generate_series(1, 50000) n;
    insert into {s}.outbox (seq, provider, destination, lane, place) select seq, 'p', 'd', key, seq from {s}.intents;
    insert into {s}.attempts (intent, attempt, relay, started, outcome) select seq, 1, 'r', now(), 'retry'
    from {s}.intents;
    insert into {s}.schedule (intent, consumer, class, slot, due, guard)
    select seq, consumer, class, slot, now(), 'clock' from {s}.intents;
    insert into {s}.audit (who, action, object, reason) select 'w', 'v', 'o', 'r' from generate_series(1, 50000);
    insert into {s}.archive (kind, content) select 'inbox', '{}' from generate_series(1, 50000);
"""


@pytest.mark.parametrize("table", ["inbox", "duplicates", "intents", "audit", "archive"])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_step_reads_its_own_pages_alone(database: str, table: str, *, analyzed: bool) -> None:
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(database)
    sql = Statements("projectionist.runner", SCHEMA)[f"purge_{table}"]
    try:
        await connection.execute(FILL.replace("{s}", SCHEMA))
        if analyzed:
            await connection.execute("analyze")
        await connection.execute("set plan_cache_mode = force_generic_plan; set jit = off")
        await connection.execute("set projectionist.purges = 'audit'")
        prepared = await connection.prepare(sql)
        kinds = [
            parameter.name[:-2] + "[]" if parameter.kind == "array" else parameter.name
            for parameter in prepared.get_parameters()
        ]
        await connection.execute(f"prepare step ({', '.join(kinds)}) as {sql}")
        part = ["0", "2000"] if table == "audit" else ["'(0,0)'", "'(64,0)'"]
        given = [*part, "false", "'none'", *GIVEN[table]]
        plan = "\n".join(
            row[0] for row in await connection.fetch(f"explain (analyze) execute step ({', '.join(given)})")
        )
        assert ("Index Scan" if table == "audit" else "Tid Range Scan") in plan, plan
        assert "Seq Scan" not in plan.replace("Seq Scan on floors", ""), plan
    finally:
        await connection.close()


_RULE = ["'{1}'", "'{2100-01-01}'", "'{1000000}'", "'{1}'"]
GIVEN = {
    "inbox": _RULE,
    "duplicates": _RULE,
    "intents": ["'{1}'", "'2100-01-01'", "'2100-01-01'"],
    "audit": ["'2100-01-01'"],
    "archive": ["'2100-01-01'", "'{}'"],
}

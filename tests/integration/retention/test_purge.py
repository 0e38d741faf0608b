"""What a purge removes, what it never does, and that nothing is applied twice for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers, stalled
from tests.support.consumer_harness import PATIENCE, ConsumerHarness
from tests.support.load import tuned
from tests.support.retention import DAY, age, forgets_after, purge, went
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act
from projectionist.core.postgres.connections import Connection
from projectionist.runner.jetstream.api import StreamConfig
from projectionist.runner.retention.archive_files import ArchiveFailed
from projectionist.runner.retention.background_purge import streams
from projectionist.runner.retention.purge import Purger

pytestmark = pytest.mark.asyncio

MONTH = msgspec.structs.replace(PATIENCE, retention_s=30 * DAY)
ACT = Act("ann", "seen")


async def ordered(live: ConsumerHarness, orders: int = 5) -> None:
    """Orders placed and paid."""
    for number in range(orders):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)


async def test_what_was_settled_long_enough_ago_goes_and_counters_stay(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await ordered(live)
    await live.settle(s.Spend)
    before = await live.fetch("select type, outcome, sum(n) from {s}.counters group by 1, 2 order by 1, 2")
    assert went(await purge(live, s.Spend)) == {}, "nothing is old enough"

    await age(live, 31)
    assert went(await purge(live, s.Spend, dry_run=True)) == {"inbox": 10}
    assert await inspection.count_inbox(live) == 10, "it was only looked at"
    assert went(await purge(live, s.Spend)) == {"inbox": 10}

    assert await inspection.count_inbox(live) == 0
    assert await inspection.rows(live, "floors", "purged", "purged_from") == [(10, 1)]
    assert before == await live.fetch(
        "select type, outcome, sum(n) from {s}.counters group by 1, 2 order by 1, 2"
    )
    assert await live.rows("spend") == [("ann", 5, 5)]


async def test_what_failed_is_parked_quarantined_or_decided_never_goes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    s.trouble.poison.add("bad")
    for order in ("fails", "skipped"):
        await live.publish(OrderPlaced("ann", 1), order, 1)
        await live.publish(OrderNoted("bad"), order, 2, id=f"bad-{order}")
        await live.publish(OrderPaid(), order, 3, id=f"behind-{order}")
    await live.publish(OrderPaid(), "gap", 2, id="gap")
    await live.publish_raw(b"x", {"ce-id": "torn"}, "torn")
    await live.publish(OrderPlaced("eve", 9), "fails", 1, id="reuse")
    await live.settle(s.Orders)
    async with live.verbs(s.Orders) as verbs:
        await verbs.skip("order/skipped", ACT)
    await live.settle(s.Orders)
    await age(live, 400)

    assert went(await purge(live, s.Orders)) == {"inbox": 2}, "both first events of orders"
    assert await live.states(s.Orders) == {
        "bad-fails": "parked",
        "behind-fails": "parked",
        "bad-skipped": "skipped",
        "behind-skipped": "applied",  # its intent is not sent yet
        "gap": "parked",
        "reuse": "quarantined",
    }
    assert await inspection.count_quarantined(live) == 2
    assert await inspection.count_incidents(live) >= 1
    assert await inspection.count_decisions(live) == 2, "the skip, and the winner of version 1"
    assert await inspection.count_parked(live) == 3


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic"])
async def test_what_comes_back_after_its_row_is_gone_is_stale_where_a_position_stands(
    live: ConsumerHarness, sequence: str
) -> None:
    s = shop(live.stream, sequence=sequence)
    if sequence == "monotonic":
        await forgets_after(live, 7)
    await live.migrate(s.Spend)
    await live.publish(OrderPlaced("ann", 7), "o1", 1, id="once")
    await live.settle(s.Spend)
    await age(live, 31)
    assert went(await purge(live, s.Spend)) == {"inbox": 1}
    await live.publish(OrderPlaced("ann", 7), "o1", 1, id="once")
    await live.settle(s.Spend)
    assert await live.states(s.Spend) == {"once": "stale"}
    assert await live.rows("spend") == [("ann", 1, 7)]


async def test_without_order_what_comes_past_the_horizon_is_applied_again(live: ConsumerHarness) -> None:
    """The limit that docs/guarantees.md states: a producer may use an id again, but not after the horizon."""
    s = shop(live.stream, sequence="unordered")
    await forgets_after(live, 7)
    await live.migrate(s.Spend)
    await live.publish(OrderPlaced("ann", 7), "o1", 1, id="once")
    await live.settle(s.Spend)
    await age(live, 29)
    await purge(live, s.Spend, policy=MONTH)
    await live.publish(OrderPlaced("ann", 7), "o1", 1, id="once")
    await live.settle(s.Spend)
    assert await live.rows("spend") == [("ann", 1, 7)], "within the horizon it is a duplicate"

    await age(live, 29)
    assert went(await purge(live, s.Spend, policy=MONTH)) == {}, "the repeat may still come back"
    await age(live, 2)
    assert went(await purge(live, s.Spend, policy=MONTH)) == {"inbox": 1, "duplicates": 1}
    await live.publish(OrderPlaced("ann", 7), "o1", 1, id="once")
    await live.settle(s.Spend)
    assert await live.rows("spend") == [("ann", 2, 14)]


async def test_a_retention_that_forgets_too_early_is_refused_at_the_start_and_by_the_purge(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Spend)
    await live.publish(OrderPlaced("ann", 7), "o1", 1)
    await live.settle(s.Spend)
    await age(live, 400)
    report = await purge(live, s.Spend, policy=MONTH)
    assert went(report) == {}
    assert "the stream has no max_age" in report.held[0].why
    with pytest.raises(Exception, match="without order no position would stand against it"):
        await live.settle(s.Spend, policy=MONTH)


async def test_nothing_goes_while_a_rebuild_is_open_or_above_the_floor(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await ordered(live, 1)
    await live.settle(s.Spend)
    await age(live, 31)
    await live.pool.execute("update projectionist.consumers set build = 1")
    report = await purge(live, s.Spend)
    assert went(report) == {}
    assert "a rebuild is open" in report.held[0].why
    await live.pool.execute("update projectionist.consumers set build = null")
    await live.pool.execute("update projectionist.floors set floor = 1")
    assert went(await purge(live, s.Spend)) == {"inbox": 1}, "the second is above the floor"


async def test_a_process_that_rests_does_not_take_a_purged_inbox_for_an_older_database(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    async with live.running(s.Spend):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Spend)
        beats = await inspection.value(live, "floors", "written")
        await inspection.reaches(1, inspection.ack_floor, live)
        await age(live, 31)
        assert went(await purge(live, s.Spend)) == {"inbox": 1}
        epoch = await inspection.value(live, "consumers", "epoch")
        await live.value_of("select written > $1 from {s}.floors", True, beats)
        again = await live.value("select clock_timestamp()")
        await live.value_of("select written > $1 from {s}.floors", True, again)
        assert await inspection.value(live, "consumers", "epoch") == epoch, "nobody went back"
        await live.publish(OrderPlaced("ann", 1), "o2", 1)
        await live.settled(s.Spend)
    assert await live.rows("spend") == [("ann", 2, 2)]


async def test_sent_intents_are_purged_with_attempts_once_the_provider_forgot_their_key(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await ordered(live, 3)
    await live.settle(s.Orders)
    first, second, third = [row[0] for row in await inspection.rows(live, "intents", "seq", order="seq")]
    await live.pool.execute(
        "update projectionist.intents set state = 'sent', settled = clock_timestamp(), memory_s = $2"
        " where seq = any($1::bigint[])",
        [first, second],
        60.0,
    )
    await live.pool.execute("update projectionist.intents set memory_s = 400 * 86400 where seq = $1", second)
    await live.pool.execute("delete from projectionist.outbox where seq = any($1::bigint[])", [first, second])
    await live.pool.execute(
        "insert into projectionist.attempts (intent, attempt, relay, started, outcome)"
        " select seq, 1, 'r', clock_timestamp(), 'retry' from projectionist.intents"
    )
    await live.pool.execute(
        "insert into projectionist.intents (key, consumer, source, id, slot, class, provider, destination, on_dead,"
        " body, hash, state, settled) values ('k', 0, 'till', '1', 's', 'c', 'p', 'd', 'pass', '', '', 'sent', now())"
    )
    live.tampered = True  # a producer's own intent has no event
    await age(live, 31)
    assert went(await purge(live, s.Orders, intent_retention_s="forever")) == {"inbox": 3}, (
        "who has intents stays"
    )
    assert went(await purge(live, s.Orders)) == {"intents": 2, "inbox": 1}, "one of them a producer's own"
    assert await inspection.rows(live, "intents", "seq", order="seq") == [(second,), (third,)]
    assert await inspection.rows(live, "attempts", "intent", order="intent") == [(second,), (third,)]


async def test_rows_are_archived_in_a_table_before_they_go_and_leave_it_in_their_time(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await ordered(live, 2)
    await live.settle(s.Spend)
    await live.pool.execute(
        "insert into projectionist.audit (who, action, object, reason) values ('ann', 'skip', 'x', 'y')"
    )
    await age(live, 31)
    await purge(live, s.Spend, archive="table", audit_retention_s=30 * DAY)
    rows = await live.fetch(
        "select kind, content ->> 'id', content ->> 'who' from {s}.archive order by number"
    )
    assert [kind for kind, *_ in rows] == ["inbox"] * 4 + ["audit"]
    assert rows[0][1] == "e1"
    assert rows[4][2] == "ann"

    assert went(await purge(live, s.Spend, archive="table", archive_retention_s=DAY)) == {}
    await age(live, 2)
    held = msgspec.structs.replace(PATIENCE, legal_hold=True)
    assert went(await purge(live, s.Spend, archive="table", archive_retention_s=DAY, policy=held)) == {
        "archive": 1
    }
    assert went(await purge(live, s.Spend, archive="table", archive_retention_s=DAY)) == {"archive": 4}


async def test_rows_are_archived_in_files_before_they_go_and_the_files_leave_in_their_time(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await ordered(live, 2)
    await live.settle(s.Spend)
    await age(live, 31)
    folder: Any = {"archive": "files", "archive_folder": str(tmp_path)}
    await purge(live, s.Spend, dry_run=True, **folder)
    assert _files(tmp_path) == []
    await purge(live, s.Spend, **folder)
    [file] = _files(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["e1", "e2", "e3", "e4"]
    assert await inspection.count_inbox(live) == 0

    assert (await purge(live, s.Spend, archive_retention_s=DAY, **folder)).files == 0
    os.utime(file, (0, 0))
    assert (await purge(live, s.Spend, archive_retention_s=DAY, **folder)).files == 1
    assert not file.exists()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jsonl"))


async def test_a_folder_that_cannot_be_written_keeps_the_rows(live: ConsumerHarness, tmp_path: Path) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await ordered(live, 1)
    await live.settle(s.Spend)
    await age(live, 31)
    (tmp_path / "taken").write_text("")
    with pytest.raises(ArchiveFailed, match="nothing is removed"):
        await purge(live, s.Spend, archive="files", archive_folder=str(tmp_path / "taken"))
    assert await inspection.count_inbox(live) == 2


async def test_under_legal_hold_nothing_goes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend, s.Orders)
    await ordered(live, 1)
    await live.settle(s.Spend, s.Orders)
    await age(live, 400)
    assert went(await purge(live, s.Spend, s.Orders, legal_hold=True, audit_retention_s=1)) == {}
    tuned(live, policy={"legal_hold": True})
    report = await purge(live, s.Spend, s.Orders)
    assert (went(report), {held.why for held in report.held}) == ({}, {"legal hold"})


async def test_counters_of_processes_long_gone_are_added_up(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    for _ in range(3):
        await ordered(live, 1)
        await live.settle(s.Spend)
    count = "select sum(n) from {s}.counters where outcome = 'applied'"
    applied = await live.value(count)
    await live.pool.execute(
        "update projectionist.runners set stopped = stopped - interval '8 days', beat = beat - interval '8 days'"
    )
    await purge(live, s.Spend)
    assert await live.value(count) == applied
    assert set(await inspection.rows(live, "counters", "runner")) == {(0,)}
    assert await inspection.count(live, "runners") == 0


async def test_hours_of_months_long_over_are_counted_together(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await live.pool.execute(
        """insert into projectionist.counters (consumer, runner, hour, type, outcome, n)
        select 1, 0, h, 'order.paid', 'applied', 2 from generate_series(
            date_trunc('month', clock_timestamp(), 'UTC') - interval '3 months',
            date_trunc('hour', clock_timestamp(), 'UTC'), interval '12 hours') h"""
    )
    applied = sum(n for (n,) in await inspection.rows(live, "counters", "n"))
    for _ in range(2):
        await purge(live, s.Spend)
        left = await inspection.rows(live, "counters", "n")
        assert sum(n for (n,) in left) == applied
        assert 2 + 2 * 28 <= len(left) <= 2 + 2 * 2 * 31, "of old months a row, of the last two each hour"


async def test_the_row_of_a_batch_that_was_open_when_the_purge_began_waits_for_its_intents(
    live: ConsumerHarness,
) -> None:
    """Its time is from before, its intents come after: they could not be unpacked when all others were."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o0", 1)
    await live.settle(s.Orders)  # so that there is a floor
    async with batch_drivers(live, s.Orders) as (driver,):
        reached, go_on = stalled(driver)
        events = driver.read(OrderPlaced("ann", 1), "o1", 1), driver.read(OrderPaid(), "o1", 2, id="paid")
        open_batch = asyncio.create_task(driver.settle(*events))
        await reached.wait()

        async def commits_then(name: str) -> StreamConfig | None:
            """The purger asks this when it has unpacked all staged intents."""
            go_on.set()
            await open_batch
            await live.pool.execute("update projectionist.floors set floor = 1000000000")
            return await streams(live.nats)(name)

        none = msgspec.structs.replace(
            live.settings, consumer_defaults=msgspec.structs.replace(PATIENCE, retention_s=0)
        )

        @asynccontextmanager
        async def lend() -> AsyncIterator[Connection]:
            async with live.pool.acquire() as connection:
                yield connection

        await Purger(lend, none, ["Orders"], commits_then, rest=0).run()
    assert await inspection.rows(live, "inbox", "id", id="paid") == [("paid",)]
    await purge(live, s.Orders, policy=none.consumer_defaults)
    assert await inspection.rows(live, "inbox", "id") == [("paid",)], "nobody has sent its intent"

"""The contenders of `bench live` do the same work, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support.servers import Servers

from projectionist.bench import latency
from projectionist.bench import trial as trials
from projectionist.bench.children import BenchError
from projectionist.bench.contenders import Contender, contenders, tracing, variants
from projectionist.bench.ground import Ground, ground
from projectionist.bench.load import Load
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings

pytestmark = pytest.mark.asyncio

LOAD = Load(events=3000, aggregates=200, payload=300)
DIFFERENT = {"batch", "received", "processed"}
"""What tells of the run, not of the events."""

Found = dict[str, list[dict[str, Any]]]


@pytest_asyncio.fixture
async def here(servers: Servers, database: str) -> AsyncIterator[Ground]:
    """A ground on the session's servers."""
    settings = Settings(postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),)))
    async with ground(settings) as made:
        yield made


async def settled(here: Ground, one: Contender) -> Found:
    """What a contender leaves when it has settled the whole load."""
    async with here.scene() as scene:
        await trials.trial(here, scene, one, LOAD.events, LOAD.events)
        keys = {"inbox": "id", "positions": "aggregate", "bench_orders": "order_id"}
        return {
            table: [
                {name: value for name, value in row.items() if name not in DIFFERENT}
                for row in await here.connection.fetch(f"select * from {scene.schema}.{table} order by {key}")
            ]
            for table, key in keys.items()
        }


def does(code: str) -> Contender:
    return Contender(title="a script", arguments=("-c", code))


async def test_a_relay_that_dies_is_named_with_what_it_said(
    here: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "RELAY", ("-c", "raise SystemExit('httpcore is missing')"))
    with pytest.raises(BenchError, match="relay ended with 1: httpcore is missing"):
        await latency._called(here.settings, LOAD, latency.LatencyPlan(), 1)


async def test_twin_peer_and_product_end_in_the_same_inbox_positions_and_rows(here: Ground) -> None:
    part, skipped = contenders(here.settings.nats, past=0)
    assert not skipped, "the benchmark's extra belongs to what a developer installs"
    await here.publish(LOAD)
    product, *others = [await settled(here, part[name]) for name in part if part[name].keeps]
    assert len(others) == 4
    assert len(product["inbox"]) == LOAD.events
    assert len(product["bench_orders"]) == len(product["positions"]) == LOAD.aggregates
    assert sum(row["changes"] + 1 for row in product["bench_orders"]) == LOAD.events
    for other in others:
        assert other == product


VARIED = variants() | tracing("http://127.0.0.1:9")


@pytest.mark.parametrize("name", sorted(VARIED))
async def test_a_variant_settles_all_it_is_given(here: Ground, name: str) -> None:
    one = VARIED[name]
    load = one.load(LOAD)
    await here.publish(load)
    cost = await trials.run(here, load, one)
    assert cost.events == load.messages
    assert cost.used is not None
    assert cost.used.wal_bytes > load.events * 50


async def test_a_past_fills_the_inbox_before_the_run(here: Ground) -> None:
    await here.publish(Load(events=100, aggregates=10, payload=300))
    for random_ids in (False, True):
        async with here.scene(past=1000, random_ids=random_ids) as scene:
            rows = await here.connection.fetch(f"select id, aggregate, version from {scene.schema}.inbox")
            assert len({row["id"] for row in rows}) == len({row[1:] for row in map(tuple, rows)}) == 1000


async def test_a_contender_that_ends_is_told_with_what_it_said(here: Ground) -> None:
    async with here.scene() as scene:
        with pytest.raises(BenchError, match=r"ended with 1: .*no such thing"):
            await trials.trial(here, scene, does("raise SystemExit('no such thing')"), 1, 1)


async def test_a_contender_that_stands_still_is_given_up(here: Ground) -> None:
    async with here.scene() as scene:
        with pytest.raises(BenchError, match="stands still after 0 events"):
            await trials.trial(here, scene, does("import time; time.sleep(60)"), 1, 1, patience_s=0.2)


async def test_neither_a_schema_nor_a_stream_outlives_its_ground(servers: Servers, database: str) -> None:
    settings = Settings(postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),)))
    seen: list[str] = []

    async def interrupted() -> None:
        async with ground(settings) as made, made.scene() as scene:
            seen.append(scene.stream)
            assert await schemas(database) == [scene.schema]
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await interrupted()
    assert await schemas(database) == []
    async with ground(settings) as made:
        names = [info.config.name for info in await made.client.jetstream().streams_info()]
    assert seen
    assert seen[0] not in names


async def schemas(database: str) -> list[str]:
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch("select nspname from pg_namespace where nspname like 'bench_%'")
    finally:
        await connection.close()
    return [row["nspname"] for row in rows]

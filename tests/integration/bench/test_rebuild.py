"""The contenders of `bench rebuild` read all there is, and say what of it is whose."""

from __future__ import annotations

import pytest
from tests.support.servers import Servers

from projectionist.bench import rebuild
from projectionist.bench.ground import ground
from projectionist.bench.load import Load
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings

pytestmark = pytest.mark.asyncio

LOAD = Load(events=2000, aggregates=100, payload=300)


async def test_product_twin_drain_and_peer_take_part(servers: Servers, database: str) -> None:
    settings = Settings(postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),)))
    said: list[str] = []
    async with ground(settings) as here:
        measured = await rebuild.rebuild(here, LOAD, 1, said.append)

    assert not measured.skipped, "the benchmark's extra belongs to what a developer installs"
    found = rebuild.document(measured)["rebuild"]
    assert {name: found[name]["events"] for name in rebuild.TITLES} == {
        "rebuild": 2000,
        "drain": 2000,
        "twin": 2000,
        "eventsourcing": 1000,
    }
    assert found["ratio_drain"] == pytest.approx(
        found["rebuild"]["events_per_s"] / found["drain"]["events_per_s"], rel=0.01
    )
    assert found["live_beside"] > 0
    assert set(found["phases_s"]) >= {"bulk", "verify"}
    assert found["held_s"] > 0
    shown = rebuild.text(measured, LOAD)
    assert all(title in shown for title in rebuild.TITLES.values())

"""The contenders of `bench relay` do the same work, and leave nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.servers import Servers

from projectionist.bench import relay
from projectionist.bench.ground import Ground, ground
from projectionist.bench.trial import Cost
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings

pytestmark = pytest.mark.asyncio

BACKLOG = relay.Backlog(intents=600, aggregates=50, payload=300)


@pytest_asyncio.fixture
async def here(servers: Servers, database: str) -> AsyncIterator[Ground]:
    """A ground on the session's servers."""
    settings = Settings(postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),)))
    async with ground(settings) as made:
        yield made


async def test_product_and_twin_publish_every_intent_once_and_no_schema_stays(here: Ground) -> None:
    said: list[str] = []
    measured = await relay.relay(here, BACKLOG, 1, said.append)
    assert not measured.skipped, "the benchmark's extra belongs to what a developer installs"
    info = await here.client.jetstream().stream_info(here.stream)
    assert info.state.messages == 2 * BACKLOG.intents
    assert [line.split(": ")[1].split()[0] for line in said] == ["product", "twin", "http", "pgqueuer"]
    assert await here.connection.fetch("select from pg_namespace where nspname like 'bench%'") == []


async def test_the_ratios_are_those_of_one_round() -> None:
    taken = {"product": 2.0, "twin": 1.0}
    costs = {name: [Cost(events=100, seconds=s, cpu_s=0.1, rss_mb=50.0)] * 2 for name, s in taken.items()}
    measured = relay.RelayResult(costs, {"pgqueuer": "it is not installed"})
    found = relay.document(measured)
    assert (found["relay"]["ratio_twin"], found["relay"]["ratio_pgqueuer"]) == (0.5, None)
    assert found["relay"]["product"]["intents_per_s"] == 50.0
    text = relay.text(measured, BACKLOG)
    assert "0.50" in text
    assert "left out, it is not installed" in text

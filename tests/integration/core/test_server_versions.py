"""Servers older than the oldest that the tests are run on: real ones, whose greeting is changed on the way."""

from __future__ import annotations

import asyncpg
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.proxy import proxied
from tests.support.servers import Servers
from tests.support.shop_app import APP, environment

from projectionist.core.nats import connections
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats
from projectionist.ops.doctor.check import Level
from projectionist.ops.doctor.examine import examine
from projectionist.runner import App

pytestmark = pytest.mark.asyncio


def older(version: str, major: str) -> tuple[bytes, bytes]:
    """A version as a server tells it, and another one of the same length."""
    return version.encode(), major.ljust(len(version), "1").encode()


async def told_by_postgres(database: str) -> tuple[bytes, bytes]:
    connection = await asyncpg.connect(database)
    try:
        version: str = connection.get_settings().server_version
    finally:
        await connection.close()
    told, instead = older(version, "14.")
    return b"server_version\0" + told, b"server_version\0" + instead


@pytest.mark.parametrize("command", ["run", "relay", "migrate", "migrate --plan"])
async def test_no_command_begins_on_a_postgresql_that_is_too_old(live: ConsumerHarness, command: str) -> None:
    told = await told_by_postgres(live.database)
    app = "tests.support.relay_app:events" if command == "relay" else APP
    async with (
        proxied(live.database, told) as proxy,
        projectionist(
            *command.split(), app, env={**environment(live), "PROJECTIONIST_POSTGRES__URL": proxy.url}
        ) as child,
    ):
        ended = await child.ended()
    assert ended.code == 1
    assert "is 14, and at least 15 is needed. Upgrade it" in " ".join(ended.err.split())
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("told", "said"),
    [("2.9.", "is 2.9,"), ("2.x.", "a version that cannot be read")],
    ids=["old", "unreadable"],
)
async def test_no_client_takes_a_nats_server_that_is_too_old(servers: Servers, told: str, said: str) -> None:
    settings = Nats(url=(Url(servers.nats_url),))
    client = await connections.connect(settings, name="test")
    version = client.connected_server_version
    await client.close()
    found = f"{version.major}.{version.minor}.{version.patch}"
    async with proxied(servers.nats_url, older(found, told)) as proxy:
        with pytest.raises(connections.BrokerRefused) as raised:
            await connections.connect(Nats(url=(Url(proxy.url),)), name="test")
    assert said in raised.value.message
    assert "and at least 2.10 is needed" in raised.value.message
    assert not connections.is_away(raised.value), "time does not mend it"


async def test_the_doctor_says_that_a_server_is_recent_enough(live: ConsumerHarness) -> None:
    checks = (await examine(App(), (), live.settings)).checks
    assert {check.name: check.level for check in checks if check.name == "version"} == {"version": Level.WELL}

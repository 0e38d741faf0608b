"""The fixtures every test may ask for; the servers start with the first test that asks for one."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.consumer_harness import harness as consumer_harness
from tests.support.outbox import Outbox, outbox
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Servers, Stream
from tests.support.spans import listening_to_spans


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Both servers, for the whole session."""
    # A terminated session would leave its servers behind: let SIGTERM end it the way Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Servers() as servers:
        yield servers
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def projectionist_servers(servers: Servers) -> Servers:
    """The same servers for the fixtures that users have."""
    return servers


@pytest.fixture
def database(servers: Servers) -> Iterator[str]:
    """The URL of a database of this test alone, migrated."""
    url = servers.make_database()
    yield url
    servers.drop_database(url)


@pytest.fixture
def stream(servers: Servers) -> Iterator[Stream]:
    """A stream of this test alone."""
    stream = servers.make_stream()
    yield stream
    servers.delete_stream(stream)


@pytest_asyncio.fixture
async def live(servers: Servers, database: str, stream: Stream) -> AsyncIterator[ConsumerHarness]:
    """A harness for live consumers on a database and a stream of this test alone; what it leaves must be sound."""
    async with consumer_harness(servers, database, stream) as made:
        yield made
        await made.assert_sound()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Collect what the runner has logged at INFO and above, as it grows."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log, keep = logging.getLogger("projectionist"), Keep()
    log.addHandler(keep)
    with caplog.at_level(logging.INFO, logger="projectionist"):
        yield lines
    log.removeHandler(keep)


@pytest.fixture
def cli(live: ConsumerHarness, tmp_path: Path) -> Cli:
    """The command line on the servers of `live`, in a folder of this test alone."""
    return Cli(live, tmp_path)


@pytest_asyncio.fixture
async def harness(database: str) -> AsyncIterator[Outbox]:
    """Intents in a database of this test alone, and relays for them."""
    async with outbox(database) as made:
        yield made


@pytest_asyncio.fixture
async def rebuilds(servers: Servers, database: str, stream: Stream) -> AsyncIterator[RebuildHarness]:
    """A harness with builders."""
    async with consumer_harness(servers, database, stream) as made:
        yield RebuildHarness(made)


kept = pytest.fixture(listening_to_spans)

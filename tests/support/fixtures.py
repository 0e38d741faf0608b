"""The fixtures of the lab; the servers start with the first test that asks for one."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.support.consumer_harness import Rig, rig
from tests.support.rebuilding import Yard
from tests.support.servers import Lab, Stream
from tests.support.spans import listening_to_spans


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Both servers, for the whole session."""
    # A terminated session would leave its servers behind: let SIGTERM end it the way Ctrl-C does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Lab() as lab:
        yield lab
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def database(lab: Lab) -> Iterator[str]:
    """The URL of a database of this test alone, migrated."""
    url = lab.make_database()
    yield url
    lab.drop_database(url)


@pytest.fixture
def stream(lab: Lab) -> Iterator[Stream]:
    """A stream of this test alone."""
    stream = lab.make_stream()
    yield stream
    lab.delete_stream(stream)


@pytest_asyncio.fixture
async def live(lab: Lab, database: str, stream: Stream) -> AsyncIterator[Rig]:
    """A rig for live consumers on a database and a stream of this test alone; what it leaves must be sound."""
    async with rig(lab, database, stream) as made:
        yield made
        await made.assert_sound()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What the runner has logged at INFO and above, as it grows."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log, keep = logging.getLogger("projectionist"), Keep()
    log.addHandler(keep)
    with caplog.at_level(logging.INFO, logger="projectionist"):
        yield lines
    log.removeHandler(keep)


@pytest_asyncio.fixture
async def yard(lab: Lab, database: str, stream: Stream) -> AsyncIterator[Yard]:
    """A rig with builders."""
    async with rig(lab, database, stream) as made:
        yield Yard(made)


kept = pytest.fixture(listening_to_spans)

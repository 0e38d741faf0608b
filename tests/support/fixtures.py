"""The fixtures of the lab; the servers start with the first test that asks for one."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.support.lab import Lab, Stream


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

"""What all tests of outages ask for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


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

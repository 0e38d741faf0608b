"""What is known of a server before it is asked."""

from __future__ import annotations

import pytest
from nats.aio.client import ServerVersion

from projectionist.runner.stream_guard.observe import moves


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.10.26", False), ("2.12.8", False), ("2.14.0", True), ("2.15.1", True), ("3.0.0-beta", True)],
)
def test_servers_move_durables_since_2_14(version: str, expected: bool) -> None:
    assert moves(ServerVersion(version)) is expected

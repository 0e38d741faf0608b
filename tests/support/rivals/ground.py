"""Tells a rival's processes where its servers are, and which release they are."""

from __future__ import annotations

import os

import msgspec
from tests.support.rivals.load import FINE, ODD

VARIABLE = "RIVAL_GROUND"
ACK_WAIT_S, SILENCE_S, RETRY_S = 5.0, 5.0, 1.0
"""For all alike: how long the broker waits for an ack, and a dead worker's job; when what failed is tried again."""


class RivalGround(msgspec.Struct, frozen=True, kw_only=True):
    """Says where a trial takes place."""

    database: str
    nats: str
    stream: str
    provider: str
    careful: bool = False
    """The contender's handler checks versions, too."""
    mended: bool = False
    """This is the release that digests every note."""

    def digest(self, note: str) -> str:
        """Return a note; ValueError where this release does not digest it."""
        if note not in ({FINE, ODD} if self.mended else {FINE}):
            raise ValueError(f"cannot digest {note}")
        return note


def told() -> RivalGround:
    """Return what this process was told."""
    return msgspec.json.decode(os.environ[VARIABLE], type=RivalGround)

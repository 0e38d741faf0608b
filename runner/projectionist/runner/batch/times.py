"""How long a process waits while it works on a consumer's events, where nobody needs another time by a setting."""

from __future__ import annotations

import msgspec


class BatchTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one consumer in one process."""

    sweep_s: float = 1.0
    """How often what is due is looked for, whoever made it due, even while nothing can be stored; what this process
    made due is taken up on time. A gap's first look is on time; later ones come with the next sweep."""
    progress_share: float = 0.25
    """After this share of the ack wait the broker is told that what it has delivered is being worked on."""
    patience_s: float = 5.0
    """How long what fails alone is waited for when nothing else has got through either; after each that was put aside
    on no better evidence twice as long, until something gets through again."""
    long_s: float = 20.0
    """A try that fails after so long is not made as a whole again: the server ends what idles or runs for too long."""
    handler_idle_s: float = 20.0
    """After so long without a statement a handler is given up: a little later PostgreSQL would end the session."""


USUAL = BatchTimes()
"""The times outside of tests."""

"""Logging for our processes: one line a change of state, for people; never a payload, a secret or a parameter."""

from __future__ import annotations

import logging
import sys


def configure(level: int = logging.INFO) -> None:
    """Write what `projectionist.*` logs to standard error, unless the program has set up logging itself."""
    log = logging.getLogger("projectionist")
    if log.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)

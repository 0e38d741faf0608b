"""The clock of local deadlines: it never goes back and, where the system allows, counts suspend."""

from __future__ import annotations

import time
from functools import partial

now = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Seconds since some moment that is the same for the whole run of this machine."""

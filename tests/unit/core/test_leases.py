"""The clock that a lease's holder trusts."""

from __future__ import annotations

import time

import pytest

from projectionist.core import clock


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has two monotonic clocks")
def test_the_clock_counts_time_asleep() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.now() <= time.clock_gettime(time.CLOCK_BOOTTIME)

"""What a rebuild says of itself on the way."""

from __future__ import annotations

import logging

import pytest

from projectionist.core import clock
from projectionist.runner.history.progress import EVERY_S, Logged

pytestmark = pytest.mark.asyncio


async def test_a_phase_in_which_nothing_is_left_to_do_says_so_for_as_long_as_it_lasts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "now", lambda: now)
    caplog.set_level(logging.INFO)
    progress = Logged("Orders")
    progress.begin("catching up", 0)

    now += 2 * EVERY_S
    await progress.advance(0)
    now += 2 * EVERY_S
    await progress.advance(20)

    assert [record.getMessage() for record in caplog.records][1:] == [
        "Orders: catching up, 0 of 0, 0/s",
        "Orders: catching up, 20 of 0, 1/s, 0 s left",
    ]

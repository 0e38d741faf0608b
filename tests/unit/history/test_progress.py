"""What rebuilds and others say of themselves on the way."""

from __future__ import annotations

import logging

import pytest

from projectionist.core import clock
from projectionist.runner.history.progress import EVERY_S, LateProgress, Logged, Watched

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


async def test_what_lasts_is_told_from_then_on_with_what_was_done_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "now", lambda: now)
    caplog.set_level(logging.INFO)
    told = Watched(Logged("purge"))
    late = LateProgress(told, 2.0)

    late.begin("inbox", 40)
    await late.advance(40)
    late.begin("intents", 30)
    await late.advance(10)
    assert (told.phase, caplog.records) == ("", [])

    now += 2.0
    await late.advance(5)
    assert (told.phase, told.total, told.done) == ("intents", 30, 15)
    await late.advance(5)
    late.begin("audit", 0)
    assert (told.phase, told.done) == ("audit", 0)
    assert [record.getMessage() for record in caplog.records] == [
        "purge: intents, 30 to do",
        "purge: audit, 0 to do",
    ]

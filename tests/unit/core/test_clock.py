"""The clocks: the one of local deadlines, and what is heard of another machine's."""

from __future__ import annotations

import pytest

from projectionist.core import clock


@pytest.mark.parametrize(
    ("said", "asked", "heard", "gone"),
    [
        (1010.0, 10.0, 10.0, 0.0),  # as much later as time has passed
        (4610.0, 10.0, 10.0, 0.0),  # forward
        (1009.5, 10.0, 10.0, 0.0),  # two clocks never run at quite the same rate
        (410.0, 10.0, 10.0, 600.0),
        (1003.0, 3.0, 10.0, 0.0),  # the answer was slow
        (403.0, 3.0, 10.0, 600.0),
    ],
)
def test_how_far_another_clock_has_gone_back_is_never_overrated(
    monkeypatch: pytest.MonkeyPatch, said: float, asked: float, heard: float, gone: float
) -> None:
    moments = iter((0.0, heard))
    monkeypatch.setattr(clock, "now", lambda: next(moments))
    other = clock.Other()
    assert other.gone_back(1000.0, 0.0) == 0.0, "what is heard for the first time"
    assert other.gone_back(said, asked) == gone

"""Processes that die, or sleep past their lease, at each call that they make; somebody else ends what they have begun.

A run of the suite takes a sample, drawn by the commit: a kill at STEPS_A_CASE steps of CASES_A_RUN
chapters. `make soak` (SWEEP=all) goes through every step of every chapter, killed and asleep, and prints what it has
covered. SWEEP_SEED=… draws another sample.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from random import Random

import pytest
from tests.support.process import ROOT
from tests.support.proof import Figure
from tests.support.servers import Servers
from tests.support.sweep import Chapter, Cut, run_chapter
from tests.support.sweep_chapters import CHAPTERS

pytestmark = pytest.mark.asyncio

CASES_A_RUN, STEPS_A_CASE = 4, 1
ALL = os.environ.get("SWEEP") == "all"
"""Set by `make soak`."""
AT_ONCE = 4
"""So many stories are lived through beside each other: most of their time is waiting for what is dead."""


def commit() -> str:
    """The commit that is tested; outside of a repository always the same."""
    asked = ("git", "-C", str(ROOT), "rev-parse", "HEAD")
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


SEED = os.environ.get("SWEEP_SEED") or commit()
CASES = [
    (chapter, sleeps) for chapter in CHAPTERS for sleeps in (False, True) if chapter.sleeps or not sleeps
]
"""Each chapter with its process killed, and, where others take over from it by a lease, asleep."""
TAKEN = CASES if ALL else Random(SEED).sample([case for case in CASES if not case[1]], CASES_A_RUN)


@pytest.mark.deadline(4 * 3600 if ALL else 300)
@pytest.mark.parametrize(
    ("chapter", "sleeps"),
    TAKEN,
    ids=lambda value: getattr(value, "name", "asleep" if value else "killed"),
)
async def test_whatever_step_is_the_last_nothing_is_lost_doubled_or_stuck(
    servers: Servers,
    chapter: Chapter,
    sleeps: bool,
    capsys: pytest.CaptureFixture[str],
    record_property: Figure,
) -> None:
    steps = sorted((await run_chapter(servers, chapter)).steps)
    Random(f"{SEED} {chapter.name}").shuffle(steps)
    most = len(steps) if ALL else STEPS_A_CASE
    covered, broken = await cut_off(servers, chapter, [Cut(step, 1, sleeps) for step in steps], most)
    record_property("steps at which a process was cut off", covered)
    record_property("steps that could be", len(steps))
    with capsys.disabled():
        if ALL:
            how = "asleep at" if sleeps else "killed at"
            print(f"\n{chapter.name}: {how} {covered} of {len(steps)} steps, {len(broken)} broken")  # noqa: T201
    assert broken == [], f"SWEEP_SEED={SEED}"
    assert covered >= most * 0.9, "the others were in no second run"


async def cut_off(servers: Servers, chapter: Chapter, cuts: list[Cut], most: int) -> tuple[int, list[str]]:
    """Cut a process off at so many of these steps, not all of which are in every run; how many, and what broke."""
    covered, broken = 0, []

    async def worker() -> None:
        nonlocal covered
        while cuts and covered < most:
            cut = cuts.pop()
            try:
                covered += (await run_chapter(servers, chapter, cut)).cut
            except Exception as error:  # noqa: BLE001 - told when all have been tried
                broken.append(f"{chapter.name}, {cut}: {error!r}")
                covered += 1

    await asyncio.gather(*(worker() for _ in range(min(most, AT_ONCE))))
    return covered, broken

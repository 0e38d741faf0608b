"""What a page says of a build: who is at work, what waits for a decision."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from projectionist.console.background_work import BackgroundWork
from projectionist.console.build_condition import build_condition, phases
from projectionist.core.operator import Act
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.history.progress import Watched
from projectionist.runner.rebuild.build_lease import AlreadyBuilding
from projectionist.runner.rebuild.compare import Compared, Differs
from projectionist.runner.rebuild.open_builds import BuildReport
from projectionist.runner.rebuild.table_pairs import Difference

NOW = datetime.now(UTC)
OPEN = BuildReport(
    consumer="Orders",
    view="Orders",
    kind="rebuild",
    generation=4,
    revision=1,
    phase="bulk",
    owner="host pid 7",
    started=NOW,
    partial=False,
    is_marked=True,
    finished=0,
    buckets=1,
    is_built=True,
    doing="reading",
    done=25,
    expected=100,
    per_s=5.0,
    told=NOW,
)
ROW = Difference("orders", "o1", {"cents": 1}, {"cents": 2})
DIFFERS = Differs(Compared(2, [ROW], more=False, expected=False, left_out=[]))


async def nothing(_: Watched) -> object:
    return None


def work(
    *, failure: BaseException | None = None, running: bool = False, owner: str = OPEN.owner
) -> BackgroundWork:
    made = BackgroundWork("rebuild", "Orders", Act("ann", "to see"), nothing, owner)
    made.failure, made.ended = failure, None if running else NOW
    return made


@pytest.mark.parametrize(
    ("changed", "given", "raised", "tone", "fact", "says"),
    [
        (
            {},
            None,
            False,
            "busy",
            "Generation 4 is being built.",
            "reading 25%, about 15 s left; by host pid 7.",
        ),
        ({"expected": None}, None, False, "busy", "Generation 4 is being built.", "reading; by host pid 7."),
        ({"is_built": False}, work(running=True), False, "busy", "Generation 4 is being built.", "reading"),
        ({"is_built": False}, None, True, "act", "Nobody builds generation 4 since", "Its process has ended"),
        (
            {"is_built": False},
            work(failure=RebuildError("the stream is gone")),
            False,
            "act",
            "Nobody builds generation 4",
            "the stream is gone",
        ),
        (
            {"is_built": False},
            work(failure=DIFFERS),
            False,
            "act",
            "The build waits for a decision: 1 row differs.",
            "one of the two is wrong",
        ),
        (
            {"is_built": False},
            work(failure=DIFFERS, owner="host pid 8"),
            False,
            "act",
            "Nobody builds generation 4",
            "Its process has ended",
        ),
        (None, work(failure=DIFFERS), False, "ok", "Nobody has to act.", "No build is open."),
        (None, work(failure=AlreadyBuilding("eve")), False, "ok", "Nobody has to act.", "No build is open."),
        (
            {"is_built": False, "is_marked": False},
            None,
            False,
            "act",
            "Generation 4 was given up.",
            "once more",
        ),
        (None, work(running=True), False, "busy", "A build is being opened.", ""),
        (None, work(failure=RebuildError("no room")), False, "act", "The last build has failed.", "no room"),
        (None, None, True, "act", "This code has a higher revision than the live generation.", ""),
        (None, None, False, "ok", "Nobody has to act.", "No build is open."),
    ],
)
def test_it_says_who_is_at_work_and_what_waits(
    changed: dict[str, Any] | None,
    given: BackgroundWork | None,
    raised: bool,
    tone: str,
    fact: str,
    says: str,
) -> None:
    opened = [] if changed is None else [msgspec.structs.replace(OPEN, **changed)]
    found = build_condition(opened, given, raised=raised)
    assert found.tone == tone
    assert found.fact.startswith(fact)
    assert says in found.says


def test_phases_before_are_done_and_those_behind_are_later() -> None:
    condition = build_condition([OPEN], None, raised=False)
    assert [(one.name, one.tone) for one in phases(OPEN, condition)] == [
        ("Open", "ok"),
        ("Bulk", "busy"),
        ("Catch up and compare", "idle"),
        ("Swap", "idle"),
    ]
    back = msgspec.structs.replace(OPEN, kind="rollback", phase="catch_up")
    assert [one.name for one in phases(back, condition)] == ["Open", "Catch up and compare", "Swap"]


@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({}, "Generation 4 of Lines and generation 2 of Spend are being built."),
        ({"is_built": False}, "Nobody builds generation 4 of Lines and generation 2 of Spend since"),
        (
            {"is_built": False, "is_marked": False},
            "Generation 4 of Lines and generation 2 of Spend were given up.",
        ),
    ],
)
def test_of_a_set_each_view_that_is_built_is_named(changed: dict[str, Any], fact: str) -> None:
    build = msgspec.structs.replace(OPEN, consumer="Shop", **changed)
    lines = msgspec.structs.replace(build, view="Lines")
    spend = msgspec.structs.replace(build, view="Spend", generation=2)
    assert build_condition([lines, spend], None, raised=False).fact.startswith(fact)
    one = build_condition([lines], None, raised=False).fact
    assert "eneration 4 of Lines" in one
    assert "Spend" not in one

"""What a preview says: what would fail before what would differ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from projectionist.console.background_work import BackgroundWork
from projectionist.console.preview_condition import preview_condition
from projectionist.core.operator import Act
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.history.progress import Watched
from projectionist.runner.preview.preview_result import PreviewResult


async def nothing(_: Watched) -> object:
    return None


def work() -> BackgroundWork:
    return BackgroundWork("preview", "Orders", Act("ann", "to see"), nothing)


@pytest.mark.parametrize(
    ("found", "tone", "told"),
    [
        ({"rows": 9, "failed": 2, "differ": 3}, "act", "this code fails on 2 events"),
        ({"rows": 9, "differ": 1}, "act", "1 row of 9 would differ."),
        ({"rows": 9, "undecidable": 4}, "act", "4 rows cannot be told"),
        (
            {"rows": 9, "runs": True},
            "ok",
            "9 rows were compared, and all are the same. It is the code that runs.",
        ),
        ({"left_out": "it has no rows"}, "idle", "Nothing is previewed: it has no rows."),
    ],
)
def test_what_was_found_is_a_sentence(found: dict[str, Any], tone: str, told: str) -> None:
    done = work()
    done.result, done.ended = PreviewResult(consumer="Orders", **found), datetime.now(UTC)
    condition = preview_condition(done)
    assert condition.tone == tone
    assert told in condition.word


def test_one_that_goes_on_says_how_far_it_is_and_one_that_failed_why() -> None:
    assert preview_condition(None).tone == "idle"
    going = work()
    assert preview_condition(going).word == "It goes on: looking."
    going.progress.begin("folding", 200)
    going.progress.done = 50
    assert preview_condition(going).word == "It goes on: folding, 25%."
    going.failure, going.ended = RebuildError("the stream is gone"), datetime.now(UTC)
    assert preview_condition(going).word == "It has failed: the stream is gone"

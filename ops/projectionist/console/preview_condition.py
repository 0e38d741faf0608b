"""What a preview says: may this code be deployed? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.needs import Condition
from projectionist.console.pages import count
from projectionist.runner.preview.preview_result import PreviewResult

if TYPE_CHECKING:
    from projectionist.console.background_work import BackgroundWork


def preview_condition(work: BackgroundWork | None) -> Condition:
    """Return it as a mark and a sentence: what would fail before what would differ."""
    if work is None:
        return Condition("idle", "No preview was made by this console yet.")
    if work.is_running:
        at = work.progress
        share = f", {min(1.0, at.done / at.total):.0%}" if at.total else ""
        return Condition("busy", f"It goes on: {at.phase or 'looking'}{share}.")
    if not isinstance(work.result, PreviewResult):
        return Condition("act", f"It has failed: {work.problem or 'without a result'}")
    return _of(work.result)


def _of(found: PreviewResult) -> Condition:
    if found.left_out is not None:
        return Condition("idle", f"Nothing is previewed: {found.left_out}.")
    if found.check is not None:
        return _new_view(found)
    if found.failed:
        events = "1 event" if found.failed == 1 else f"{count(found.failed)} events"
        return Condition("act", f"Look before you deploy: this code fails on {events} that live has applied.")
    if found.differ:
        rows = "1 row" if found.differ == 1 else f"{count(found.differ)} rows"
        return Condition("act", f"{rows} of {count(found.rows)} would differ.")
    if found.undecidable:
        return Condition(
            "act", f"{count(found.undecidable)} rows cannot be told: not all of their events are there."
        )
    if found.columns:
        return Condition("act", f"Columns change; in all others {count(found.rows)} rows are the same.")
    whose = " It is the code that runs." if found.runs else ""
    return Condition("ok", f"{count(found.rows)} rows were compared, and all are the same.{whose}")


def _new_view(found: PreviewResult) -> Condition:
    assert found.check is not None, "it is asked before"
    (made,) = found.check.consumers
    rows = 0 if made.fold is None else made.fold.rows
    told = f"It is not there yet: it would make {count(rows)} rows of {count(made.messages)} messages"
    if made.troubled:
        return Condition("act", f"{told}, and fail on {count(made.troubled)}.")
    return Condition("ok", f"{told}.")

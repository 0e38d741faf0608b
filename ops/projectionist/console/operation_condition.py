"""How an operation is, must somebody decide, and what each of its samples says? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from projectionist.console.build_condition import BuildCondition, Phase
from projectionist.console.pages import count, duration
from projectionist.core.states import OperationOutcome
from projectionist.runner.operations.operation import SAMPLES, why_abandoned

if TYPE_CHECKING:
    from projectionist.runner.operations.operation import OperationReport, SampleReport

TONES: dict[str, str] = {
    OperationOutcome.DONE: "ok",
    OperationOutcome.NONE_GOT_THROUGH: "wait",
    OperationOutcome.UNTRIED: "act",
    OperationOutcome.STOPPED: "idle",
    OperationOutcome.FAILED: "act",
}


def tone(one: OperationReport) -> str:
    """Return the mark of an operation."""
    if one.outcome is not None:
        return TONES.get(one.outcome, "idle")
    return "busy" if one.is_carried_out else "act"


def operation_condition(one: OperationReport) -> BuildCondition:
    """Return how it is, and what follows from it."""
    if one.is_abandoned:
        why, _ = why_abandoned(one)
        says = "Take it up: it goes on where it stands. Or stop it: what is left stays as it is."
        if not one.is_group:
            says = "Begin it again, which ends this one: a rebuild goes on where it stood. Or stop it."
        return BuildCondition("act", f"{why[:1].upper()}{why[1:]}.", says, waits=True)
    if one.outcome is not None:
        left = f" {count(one.left)} were left as they are." if one.left else ""
        again = f" {count(one.failed)} failed again." if one.failed else ""
        fact = "Nobody has to act." if one.is_well else f"It has ended: {one.state}."
        note = f" {one.note[:1].upper()}{one.note[1:]}." if one.note else ""
        return BuildCondition(tone(one), fact, f"{count(one.done)} done.{again}{left}{note}")
    if one.stop_asked_by:
        return BuildCondition(
            "busy", "It stops before its next step.", f"{one.stop_asked_by}: {one.stop_reason}"
        )
    ends = f" It ends in about {duration(one.left_s)}." if one.left_s is not None else ""
    if not one.is_group:
        return BuildCondition(
            "busy", "Nobody has to act.", f"It is at: {one.phase or 'its beginning'}.{ends}"
        )
    says = "It stops by itself if none of a sample gets through; what fails again is left as it is."
    return BuildCondition("busy", "Nobody has to act.", says + ends)


def sample_steps(samples: Sequence[SampleReport]) -> list[Phase]:
    """Return the samples of one group, those that have not begun as later."""
    return [Phase(_sample(one), _tone(one), _says(one)) for one in samples]


def _sample(one: SampleReport) -> str:
    if not one.judged:
        return "all"
    return str(one.items) if one.sample < len(SAMPLES) else "the rest"


def _tone(one: SampleReport) -> str:
    if one.waiting == one.items or one.left:
        return "idle"
    if one.waiting or one.tried:
        return "busy"
    return "ok" if one.done or not one.failed else "wait"


def _says(one: SampleReport) -> str:
    if one.left:
        return f"{count(one.left)} left alone"
    if one.waiting == one.items:
        return f"{count(one.items)} wait for this sample" if one.sample else f"{count(one.items)} wait"
    told = {"got through" if one.judged else "done": one.done, "failed again": one.failed}
    told |= {"refused": one.refused, "being tried": one.tried, "to come": one.waiting}
    return ", ".join(f"{count(number)} {word}" for word, number in told.items() if number)

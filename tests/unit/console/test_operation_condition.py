"""What the page of an operation says: must somebody decide, and what became of each sample."""

from __future__ import annotations

from functools import partial

import pytest
from tests.support.operation_reports import BEGAN, operation_report

from projectionist.console.operation_condition import operation_condition, sample_steps
from projectionist.core.states import OperationOutcome
from projectionist.runner.operations.operation import SampleReport

report = partial(operation_report, done=20)


@pytest.mark.parametrize(
    ("given", "tone", "texts"),
    [
        ({}, "busy", ["Nobody has to act.", "none of a sample gets through", "ends in about 40 s"]),
        (
            {"stop_asked_by": "bob", "stop_reason": "no"},
            "busy",
            ["It stops before its next step.", "bob: no"],
        ),
        (
            {"is_carried_out": False},
            "act",
            ["Nobody carries it out since 2026-03-12", "80 are left", "Take it up"],
        ),
        (
            {"ended": BEGAN, "outcome": OperationOutcome.NONE_GOT_THROUGH, "failed": 5, "note": "none did"},
            "wait",
            [
                "It has ended: stopped by its sample.",
                "5 failed again.",
                "75 were left as they are. None did.",
            ],
        ),
        (
            {"ended": BEGAN, "outcome": OperationOutcome.DONE, "done": 100},
            "ok",
            ["Nobody has to act.", "100 done."],
        ),
        ({"ended": BEGAN, "outcome": OperationOutcome.UNTRIED}, "act", ["nobody tried it"]),
    ],
)
def test_it_says_first_whether_somebody_must_act(
    given: dict[str, object], tone: str, texts: list[str]
) -> None:
    condition = operation_condition(report(**given))

    said = f"{condition.fact} {condition.says}"
    assert condition.tone == tone
    assert [text for text in texts if text not in said] == [], said


def test_samples_say_what_became_of_them_and_those_to_come_are_later() -> None:
    def sample(number: int, items: int, **given: int) -> SampleReport:
        usual = {"done": 0, "failed": 0, "refused": 0, "tried": 0, "left": 0}
        return SampleReport(
            alike=1, sample=number, judged=True, consumer="Orders", items=items, **usual | given
        )

    steps = sample_steps(
        [sample(0, 1, done=1), sample(1, 5, failed=5), sample(2, 20, tried=3, done=2), sample(4, 900)]
    )
    assert [(one.name, one.tone, one.says) for one in steps] == [
        ("1", "ok", "1 got through"),
        ("5", "wait", "5 failed again"),
        ("20", "busy", "2 got through, 3 being tried, 15 to come"),
        ("the rest", "idle", "900 wait for this sample"),
    ]
    assert sample_steps([sample(2, 20, left=20)])[0].says == "20 left alone"

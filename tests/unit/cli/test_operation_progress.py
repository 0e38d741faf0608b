"""What a command says of the operation it has carried out."""

from __future__ import annotations

from argparse import Namespace

import pytest
from tests.support.operation_reports import BEGAN, operation_report

from projectionist.ops.cli.operation_progress import report
from projectionist.runner.operations.operation import ItemReport


def test_names_of_what_was_done_are_bounded_and_counts_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    one = operation_report(matched=5000, done=4000, failed=100, refused=900, ended=BEGAN, outcome="done")
    items = [
        ItemReport(
            consumer="Orders",
            source="shop",
            id=f"e{n}",
            incarnation=None,
            seq=None,
            key=None,
            aggregate=None,
            state="refused" if n else "done",
            note="it moved",
        )
        for n in range(3)
    ]
    assert report(one, items, Namespace(act="retry", json=False)) == 3
    shown = capsys.readouterr()
    assert shown.out == "retry: 4,100 done, 100 of them failed again\ne1: it moved\ne2: it moved\n"
    assert "898 more were refused" in shown.err

"""Mutants change one place each, are loaded in its stead, and those that are explained are still there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from tests.support import mutants
from tests.support.mutants import ROOT, TARGETS, explained, source_of

SOURCE = '''
def may(a: int, b: int) -> bool:
    """Return whether."""
    return a < b and not b == 3
'''


def test_every_place_is_changed_once_in_each_way() -> None:
    assert [str(one) for one, _, _ in mutants.mutants(SOURCE)] == [
        "may: `a < b and (not b == 3)` -> `a < b or not b == 3` (0)",
        "may: `a < b and (not b == 3)` -> `a < b` (0)",
        "may: `a < b` -> `a <= b` (0)",
        "may: `not b == 3` -> `b == 3` (0)",
        "may: `b == 3` -> `b != 3` (0)",
        "may: `3` -> `4` (0)",
    ]


def test_a_mutant_differs_from_its_source_in_that_place_alone() -> None:
    whole = ast.unparse(ast.parse(SOURCE))

    for mutant, number, kind in mutants.mutants(SOURCE):
        changed = ast.unparse(mutants.changed(SOURCE, number, kind))
        assert changed != whole, mutant
        assert len(changed.splitlines()) == len(whole.splitlines()), mutant


def test_a_test_process_runs_the_mutant_instead() -> None:
    name = "projectionist.runner.batch.failure_evidence"
    number, kind = next(
        (number, kind)
        for one, number, kind in mutants.mutants(source_of(name))
        if str(one) == "(module): `2` -> `3` (0)"
    )
    change = f"sys.meta_path.insert(0, Changed({name!r}, {number}, {kind}))"
    shown = "from projectionist.runner.batch import failure_evidence as f; print(f.ENOUGH)"

    done = subprocess.run(
        [sys.executable, "-c", f"import sys; from tests.support.mutants import Changed; {change}; {shown}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "3\n"


def test_what_is_explained_is_a_mutant_of_today() -> None:
    made = {f"{name}: {one}" for name in TARGETS for one, _, _ in mutants.mutants(source_of(name))}

    assert explained().keys() <= made


def test_each_module_with_mutants_has_tests_that_are_there() -> None:
    assert all((ROOT / test).exists() for tests in TARGETS.values() for test in tests)

"""Changes one place of a module at a time and runs the module's unit tests: whatever change they pass has survived.

`python -m tests.support.mutants [WORD]`, or `make mutants ONLY=WORD`. What survives has to be killed by a test, or
explained in `tests/support/survivors.txt`. Nothing is written to the sources: a test process loads the changed module
instead. It is forked from one that has imported what never changes, which is most of what a process takes.
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.machinery
import os
import resource
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import hypothesis.stateful  # noqa: F401 - imported before the forks, as are the next ones
import msgspec
import nats.aio.client  # noqa: F401
import pytest

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.txt")
CPU_S = 120
"""So much processor time a run may take; a change after which it takes more is noticed."""
TARGETS = {
    "projectionist.projections.folding.version_verdict": ["tests/unit/projections/test_judge.py"],
    "projectionist.runner.batch.planning": ["tests/unit/batch"],
    "projectionist.runner.batch.outcomes": ["tests/unit/batch"],
    "projectionist.runner.batch.dedupe": ["tests/unit/batch"],
    "projectionist.runner.batch.failure_evidence": [
        "tests/unit/batch/test_failure_evidence.py",
        "tests/model/test_error_model.py",
    ],
    "projectionist.runner.batch.retry_policy": ["tests/unit/batch/test_retry_policy.py"],
    "projectionist.core.postgres.error_class": ["tests/unit/core/test_error_class.py"],
    "projectionist.core.postgres.leases": ["tests/integration/core/test_leases.py"],
    "projectionist.runner.stream_guard.verdict": [
        "tests/unit/stream_guard",
        "tests/model/test_floor_model.py",
    ],
    "projectionist.runner.retention.rules": ["tests/unit/retention/test_rules.py"],
    "projectionist.outbox.relay.state_machine": ["tests/unit/relay", "tests/model/test_relay_model.py"],
    "projectionist.runner.process.end_reason": ["tests/unit/process/test_end_reason.py"],
}
"""Modules that decide, each with the tests that have to notice."""
_OTHER: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(msgspec.Struct, frozen=True):
    """One change, by where it is and what it makes of that place; lines may move beneath it."""

    place: str
    """The function, or class and function, or nothing for the module."""
    before: str
    after: str
    nth: int
    """Which of the places that look the same there."""

    def __str__(self) -> str:
        return f"{self.place or '(module)'}: `{self.before}` -> `{self.after}` ({self.nth})"


def mutants(source: str) -> list[tuple[Mutant, int, int]]:
    """Return every mutant of a module, with the number of its place and what of that place it is."""
    made, seen = [], dict[tuple[str, str, str], int]()
    for number, (place, node) in enumerate(_places(ast.parse(source))):
        before = ast.unparse(node)
        for kind, fresh in enumerate(_changed(copy.deepcopy(node))):
            key = place, before, ast.unparse(fresh)
            seen[key] = seen.get(key, -1) + 1
            made.append((Mutant(*key, seen[key]), number, kind))
    return made


def changed(source: str, number: int, kind: int) -> ast.Module:
    """Return the module with one place changed."""
    tree = ast.parse(source)
    target = _places(tree)[number][1]
    _Replaced(target, _changed(copy.deepcopy(target))[kind]).visit(tree)
    return ast.fix_missing_locations(tree)


def _places(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """Return what may be changed: expressions in code that runs, and not in annotations or patterns."""
    found: list[tuple[str, ast.expr]] = []

    def walk(node: ast.AST, place: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}" if place else node.name
        for name, value in ast.iter_fields(node):
            if (
                isinstance(node, ast.ClassDef) and name == "keywords"
            ):  # how a struct is laid out decides nothing
                continue
            if name in ("annotation", "returns", "type_comment", "decorator_list", "pattern"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr) and _changed(copy.deepcopy(child)):
                    found.append((place, child))
                if isinstance(child, ast.AST):
                    walk(child, place)

    walk(tree, "")
    return found


def _changed(node: ast.expr) -> list[ast.expr]:
    """Return what else could stand there."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            node.ops = [_OTHER[type(op)]()]
            return [node]
        case ast.BoolOp(op=op, values=values):
            node.op = _OTHER[type(op)]()
            return [node, *([values[0]] if len(values) == 2 else [])]
        case ast.BinOp(op=op) if type(op) in _OTHER:
            node.op = _OTHER[type(op)]()
            return [node]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [ast.IfExp(test, orelse, body)]
        case ast.Constant(value=bool() as value):
            return [ast.Constant(not value)]
        case ast.Constant(value=int() | float() as value):
            return [ast.Constant(value + 1)]
        case _:
            return []


class _Replaced(ast.NodeTransformer):
    def __init__(self, target: ast.AST, fresh: ast.expr) -> None:
        self._target, self._fresh = target, fresh

    def visit(self, node: ast.AST) -> Any:
        """Exchange the one node."""
        if node is self._target:
            return self._fresh
        return self.generic_visit(node)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module with one change, for the test process that it is in."""

    def __init__(self, name: str, number: int, kind: int) -> None:
        self._name, self._number, self._kind = name, number, kind

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for that module alone."""
        if fullname != self._name:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None
        assert found.origin is not None
        return importlib.machinery.ModuleSpec(fullname, self, origin=found.origin)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed module."""
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        source = Path(module.__spec__.origin).read_text("utf-8")
        tree = changed(source, self._number, self._kind)
        exec(compile(tree, module.__spec__.origin, "exec"), vars(module))  # noqa: S102 - our own source


def source_of(name: str) -> str:
    """Return the source of a module."""
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text("utf-8")


def explained() -> dict[str, str]:
    """Return the survivors that are explained: `module: mutant`, each with why no test can notice it."""
    lines = SURVIVORS.read_text("utf-8").splitlines()
    return dict(line.split(" -- ", 1) for line in lines if line.startswith("projectionist."))


def main(words: Sequence[str]) -> int:
    """Try all mutants of the modules whose names hold one of the words; return 1 if one survives unexplained."""
    os.chdir(ROOT)
    known, survived = explained(), 0
    for name, tests in TARGETS.items():
        if words and not any(word in name for word in words):
            continue
        made = mutants(source_of(name))
        killed = 0
        if not _passes(None, tests):
            _tell(f"{name}: its tests fail without a change, so they say nothing")
            survived += 1
            continue
        for mutant, number, kind in made:
            if not _passes(Changed(name, number, kind), tests):
                killed += 1
            elif f"{name}: {mutant}" not in known:
                survived += 1
                _tell(f"{name}: {mutant}")
        _tell(f"{name}: {len(made)} mutants, {killed} killed")
    return 1 if survived else 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _passes(changed: Changed | None, tests: Sequence[str]) -> bool:
    pid = os.fork()
    if not pid:
        _try(changed, tests)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _try(changed: Changed | None, tests: Sequence[str]) -> NoReturn:
    """Run the tests with the changed module, in a process that ends with them."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    code = 1
    try:
        for loaded in [one for one in sys.modules if one.partition(".")[0] == "projectionist"]:
            del sys.modules[loaded]
        if changed is not None:
            sys.meta_path.insert(0, changed)
        late = "ignore::pytest.PytestAssertRewriteWarning"  # of what was imported before the fork
        code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-W", late, *tests])
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

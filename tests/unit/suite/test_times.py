"""Times are parameters with a default: a test gives another one, and patches no constant of a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = ("runner", "projections", "outbox", "migrations", "ops")
CONSTANT = re.compile(r"^([A-Z][A-Z0-9_, ]*?)(?:: .*?)? = (.*)", re.MULTILINE)
TIME = re.compile(r"(?:^|_)(?:S|MS|NS|SECONDS)$")
"""How constants are called that are times."""
SCHEDULE = re.compile(r"""RetryPolicy\(|"\d+ ?(?:ms|s|min)"$""")
"""What is a time whatever it is called: a schedule of tries, and words that PostgreSQL reads as a time."""


def times() -> Iterator[str]:
    """Constants of the product's modules that are times."""
    for part in PARTS:
        for file in (ROOT / part / "projectionist").rglob("*.py"):
            for names, value in CONSTANT.findall(file.read_text("utf-8")):
                for name in names.split(", "):
                    if TIME.search(name) or SCHEDULE.match(value):
                        yield name


def patched(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that set an attribute from outside, by name: the last part of it where a module's name is before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setattr":
            for given in node.args[:2]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield node.lineno, given.value.rpartition(".")[2]


def test_no_test_patches_a_module_constant_of_ours_that_is_a_time() -> None:
    known = set(times())
    assert {"POLL_S", "PING_S", "SHORT"} <= known
    found = [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if "setattr(" in (text := file.read_text("utf-8"))
        for line, name in patched(ast.parse(text))
        if name in known
    ]
    assert not found, "give it as a parameter"


def test_what_is_patched_is_found_in_either_form() -> None:
    text = 'monkeypatch.setattr(loop, "SWEEP_S", 1)\nmonkeypatch.setattr("projectionist.a.POLL_S", 2)'
    assert list(patched(ast.parse(text))) == [(1, "SWEEP_S"), (2, "POLL_S")]

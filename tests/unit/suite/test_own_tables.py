"""Tests read our own tables through `tests/support/inspection`, so that a column that is renamed touches one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[2]
MOST = 195
"""So many reads by SQL may be left: joins, expressions, tests whose subject is what a table holds. Only lower it."""
READ = re.compile(
    r"\bselect\b.*\b(?:from|join)\s+(?:\{s\}|\{SCHEMA\}|projectionist)\.(\w+)", re.IGNORECASE | re.DOTALL
)
WRITE = re.compile(r"\s*(?:insert|update|delete|alter|create|drop|truncate|begin|lock|with)\b", re.IGNORECASE)
MODELS = re.compile(r"__g\d|^(?:orders|spend|slow|t)$")
"""Read models of tests, which are no tables of ours."""


def texts(tree: ast.AST) -> Iterator[str]:
    """Strings as they are written, what is filled in included."""
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in ast.walk(node))
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def reads(text: str) -> Iterator[str]:
    """Statements among the strings of a module that read tables of ours."""
    for one in texts(ast.parse(text)):
        found = READ.search(one)
        if found and not WRITE.match(one) and not MODELS.search(found[1]):
            yield one


def test_what_reads_our_own_tables_by_sql_only_gets_less() -> None:
    found = [
        f"{file.relative_to(TESTS)}: {one}"
        for file in sorted(TESTS.rglob("*.py"))
        if "support" not in file.parts and "select" in (text := file.read_text("utf-8"))
        for one in reads(text)
    ]
    assert len(found) <= MOST, "read through tests.support.inspection: rows, value, count"


def test_a_read_is_told_from_a_write_and_from_a_read_model() -> None:
    read, copied, model = (
        "select 1 from {s}.parked",
        "insert into {s}.inbox select * from {s}.inbox",
        "select 1 from orders",
    )
    assert list(reads(f"a({read!r}); b({copied!r}); c({model!r})")) == [read]

"""Fingerprints: what changes them and what does not."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from projectionist.projections import definition, upcasting
from projectionist.projections.definition import Definition
from projectionist.projections.fingerprint import outline, written

SOURCE = '''
from __future__ import annotations
from projectionist.projections import Event, Index, Projection, on, upcast

class Placed(Event, type="placed", schema=2):
    order_id: str
    cents: int = 0

    def doubled(self) -> int:
        return self.cents * 2

@upcast("placed", schema=1)
def step(old: dict) -> dict:
    return {**old, "cents": 1}

def enough(row, event) -> bool:
    return event.cents > 0

class Summary(Projection, stream="S", subjects="s.{aggregate}", table="summary", key="order_id"):
    """One row per order."""

    order_id: str
    cents: int = 0

    @on(Placed, when=enough)
    def placed(self, event: Placed) -> None:
        """What it does."""
        self.cents = self.added(event.doubled())  # why

    def added(self, cents: int) -> int:
        return self.cents + cents
'''

Load = Callable[..., Definition]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """The definition of `SOURCE` with replacements, as a process of its own would have it."""
    count = itertools.count()

    def load(*replacements: tuple[str, str]) -> Definition:
        text = SOURCE
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        monkeypatch.setattr(upcasting, "_steps", {})
        path = tmp_path / f"{next(count)}.py"
        path.write_text(text, "utf-8")
        module = ModuleType("shop")
        monkeypatch.setitem(sys.modules, "shop", module)
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 what an import does
        made = definition(module.Summary)
        assert len(made.shape) == len(made.code) == 16
        return made

    return load


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # why", ""),
        ('"""What it does."""', '"""What it has always done."""'),
        ('        """What it does."""\n', ""),
        ("\ndef enough", "\n\n\n# moved down\n\ndef enough"),
        ("self.cents + cents", "(self.cents\n            + cents)"),
        ("cents: int) -> int:", "cents):"),
    ],
)
def test_comments_docstrings_annotations_and_layout_are_not_code(load: Load, old: str, new: str) -> None:
    assert load().code == load((old, new)).code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.added(event.doubled())", "self.added(event.cents)"),
        ("self.cents + cents", "self.cents - cents"),
        ("self.cents * 2", "self.cents * 3"),
        ("event.cents > 0", "event.cents > 1"),
        ('"cents": 1', '"cents": 2'),
        ("@on(Placed, when=enough)", "@on(Placed)"),
        ("@on(Placed, when=enough)", "@on(Placed, when=lambda row, event: True)"),
    ],
)
def test_a_handler_and_what_it_leans_on_is_code(load: Load, old: str, new: str) -> None:
    one, other = load(), load((old, new))
    assert one.code != other.code
    assert one.shape == other.shape


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    cents: int = 0\n\n    @on", "    cents: int = 1\n\n    @on"),
        ("    cents: int = 0\n\n    @on", "    cents: int | None = 0\n\n    @on"),
        ("    cents: int = 0\n\n    @on", "    cents: int = 0\n    more: str = ''\n\n    @on"),
        ('stream="S"', 'stream="T"'),
        ('subjects="s.', 'subjects="t.'),
        ('key="order_id"', 'key="order_id", sequence="monotonic"'),
        ('key="order_id"', 'key="order_id", baseline=3'),
        ('key="order_id"', 'key="order_id", indexes=(Index("cents"),)'),
        ("schema=2", "schema=3"),
    ],
)
def test_fields_options_and_handled_types_are_shape(load: Load, old: str, new: str) -> None:
    one, other = load(), load((old, new))
    assert outline(one) != outline(other)
    assert one.shape != other.shape


def test_code_without_source_is_read_from_its_bytecode() -> None:
    space: dict[str, Callable[[int], object]] = {}
    exec("def one(x):\n  return [y + 1 for y in range(x)]", space)  # noqa: S102 a function without source
    exec("def other(x):\n  return [y + 2 for y in range(x)]", space)  # noqa: S102 as above
    exec("def again(x):\n  return [y + 1 for y in range(x)]", space)  # noqa: S102 as above
    assert written(space["one"]) != written(space["other"])
    assert written(space["one"]) == written(space["again"])


def test_two_lambdas_on_one_line_are_told_apart() -> None:
    one, other = (lambda x: x + 1), (lambda x: x + 2)
    assert written(one) != written(other)


def test_what_has_no_code_of_its_own_is_known_by_its_name() -> None:
    assert written(len) == "builtins.len"

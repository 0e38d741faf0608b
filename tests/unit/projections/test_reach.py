"""What a fingerprint follows beyond the names of a module: imports inside functions, tables that fill themselves."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
from tests.unit.projections.test_fingerprint import loaded

from projectionist.projections.compiled import code_reach, source_code

ROWS = """
from __future__ import annotations
from projectionist.projections import Event, Projection, on
{above}

class Placed(Event, type="placed"):
    cents: int = 0

class Summary(Projection, stream="S", subjects="s.{{aggregate}}", table="summary", key="order_id"):
    order_id: str
    cents: int = 0

    @on(Placed)
    def placed(self, event: Placed) -> None:
        {body}
"""
TAXES = "def vat(c):\n    return c * 2\n"
TABLE = """
RULES = {}

def rule(name):
    def enter(function):
        RULES[name] = function
        return function
    return enter

@rule("a")
def one(c):
    return c * 2
"""
GENERIC = """
import functools

@functools.singledispatch
def h(c):
    return 0

@h.register
def _(c: int):
    return c * 2
"""
NAMED = """
class Base:
    known = {}

    def __init_subclass__(cls):
        Base.known[cls.__name__] = cls

class A(Base):
    rate = 2
"""
PATCH = "from . import taxes\n\ndef other(c):\n    return c * 4\n\ntaxes.vat = other\n"
HELPER = "def h(c):\n    from .taxes import vat\n    return vat(c)\n"
SETUP = "R = 1\n\ndef setup():\n    global R\n    R = 2\n\nsetup()\n"
MADE_UP = "def __getattr__(name):\n    return 2\n"
TWO = "def x(c):\n    return c\n\ndef y(c):\n    return c + 1\n"

Files = dict[str, str]


def files(body: str, above: str = "", **others: str) -> Files:
    """A package with a projection whose one handler does this."""
    return {"__init__": "", **others, "rows": ROWS.format(above=above, body=body)}


@pytest.mark.parametrize(
    ("one", "old", "new"),
    [
        (files("from shop.taxes import vat; self.cents = vat(1)", taxes=TAXES), "c * 2", "c * 3"),
        (files("self.cents = h(1)", HELPER, taxes=TAXES), "c * 2", "c * 3"),
        (files("self.cents = h(1)", GENERIC), "c * 2", "c * 3"),
        (files("self.cents = RULES['a'](1)", TABLE), "c * 2", "c * 3"),
        (files("self.cents = Base.known['A'].rate", NAMED), "rate = 2", "rate = 3"),
        (files("self.cents = r(event.cents / 2)", "from math import floor as r"), "floor", "ceil"),
        (files("self.cents = h(1)", "from .a import x as h\nfrom .a import y", a=TWO), "x as h", "y as h"),
        (files("self.cents = R['a']", "R = {}\nfor k in 'ab':\n    R.setdefault(k, 2)"), "k, 2", "k, 3"),
        (files("self.cents = R['a']", "R = {}\ndict.update(R, a=2)"), "a=2", "a=3"),
        (files("self.cents = R[0][0]", "R = [[]]\nR[0].append(2)"), "append(2)", "append(3)"),
        (files("self.cents = R.get('a')", "R = {'a': 1, 'b': 2}\ndel R['a']"), "del R['a']", "del R['b']"),
        (files("self.cents = R", SETUP), "R = 2", "R = 3"),
        (files("self.cents = a.RATE", "from . import a", a=MADE_UP), "return 2", "return 3"),
        (files("self.cents = taxes.vat(1)", "from . import patch, taxes", taxes=TAXES, patch=PATCH), "c * 4", "c * 5"),
    ],
)  # fmt: skip
def test_a_change_is_noticed_wherever_it_is_made(tmp_path: Path, one: Files, old: str, new: str) -> None:
    [where] = [name for name, text in one.items() if old in text]
    changed = one | {where: one[where].replace(old, new)}
    before, again, after = (loaded(tmp_path / str(n), f).code for n, f in enumerate((one, one, changed)))
    assert before == again
    assert before != after


def test_what_stands_in_two_modules_under_one_name_cannot_be_exchanged(tmp_path: Path) -> None:
    def code(number: int, de: str, fr: str) -> bytes:
        body = "self.cents = de.RATE * 100 + fr.RATE"
        return loaded(tmp_path / str(number), files(body, "from . import de, fr", de=de, fr=fr)).code

    assert code(1, "RATE = 19\n", "RATE = 20\n") != code(2, "RATE = 20\n", "RATE = 19\n")


MADE_BY_PYTHON = """
import functools
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import NamedTuple

@dataclass
class Line:
    cents: int = 2
    tags: list = field(default_factory=list)

class Pair(NamedTuple):
    cents: int = 2

class State(StrEnum):
    NEW = "new"

class Bits(IntFlag):
    ONE = 1

@functools.total_ordering
class Rank:
    def __lt__(self, other):
        return True

chosen, other = lambda c: c + 1, lambda c: c + 2
def through(one, other):
    return lambda c: one(c) + other(c)
both = through(lambda c: c, lambda c: c * 2)
"""
USED = "self.cents = Line().cents + Pair().cents + len(State.NEW) + Bits.ONE + (Rank() > 0) + chosen(1) + both(1)"


def test_nothing_counts_that_changes_with_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods that Python makes for a class, and code where there is source: both are others in its next version."""

    def forbidden(code: object, doc: str | None = None) -> str:
        raise AssertionError(code)

    monkeypatch.setattr(code_reach, "bytecode", forbidden)
    one = loaded(tmp_path / "1", files(USED, MADE_BY_PYTHON))
    assert one.unfollowed == ()
    for number, (old, new) in enumerate(
        [
            ("cents: int = 2\n    tags", "cents: int = 3\n    tags"),
            ("(NamedTuple):\n    cents: int = 2", "(NamedTuple):\n    cents: int = 3"),
            ("c * 2", "c * 3"),
            ("c + 1", "c + 4"),
        ]
    ):
        changed = MADE_BY_PYTHON.replace(old, new)
        assert changed != MADE_BY_PYTHON
        assert loaded(tmp_path / f"c{number}", files(USED, changed)).code != one.code


def test_what_python_c_runs_is_no_source_of_what_libraries_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 keeps it under the name that the methods of a dataclass bear too."""
    text = "import sys; exec(sys.stdin.readline())\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, [text], "<string>"))
    source_code.source.cache_clear()
    assert loaded(tmp_path, files(USED, MADE_BY_PYTHON)).unfollowed == ()

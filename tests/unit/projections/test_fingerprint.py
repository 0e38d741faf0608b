"""Fingerprints: what changes them and what does not."""

from __future__ import annotations

import ast
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from tests.support.mutations import changed, sites
from tests.unit.projections.shop import OrderPaid

from projectionist.projections import Projection, definition, on, upcasting
from projectionist.projections.compiled.definition import Definition
from projectionist.projections.compiled.fingerprint import outline

FILES = {
    "__init__": "",
    "prices": """
from decimal import Decimal

VAT = 119
RATES = {"books": 107}
RATES["food"] = 105

def gross(cents):
    return cents * rate() // 100

def rate():
    return VAT
""",
    "lines": """
from __future__ import annotations
import enum
import msgspec

class Line(msgspec.Struct):
    sku: str = ""
    quantity: int = 1

    @property
    def empty(self) -> bool:
        return self.quantity < 1

class State(enum.StrEnum):
    NEW = "new"
    PAID = "paid"
""",
    "tools": """
import functools

def logged(function):
    @functools.wraps(function)
    def inner(self, event):
        return function(self, event)
    return inner

def unwrapped(function):
    def inner(self, event):
        return function(self, event)
    return inner

def over(limit):
    return lambda row, event: event.cents > limit
""",
    "rows": '''
from __future__ import annotations
import functools
from typing import ClassVar
from projectionist.projections import Event, Index, Projection, on, upcast
from . import prices
from .lines import Line, State
from .tools import logged, over, unwrapped
import shop.prices as tariffs

NOTE = "noted"
small = lambda row, event: event.cents < 1000
large = over(5000)

class Placed(Event, type="placed", schema=2):
    order_id: str
    cents: int = 0
    first: Line | None = None

    def doubled(self) -> int:
        return self.cents * 2

class Paid(Event, type="paid"):
    cents: int = 0

class Noted(Event, type="noted"):
    cents: int = 0

def renamed(old):
    return {**old, "cents": 1}

@upcast("placed", schema=1)
def step(old: dict) -> dict:
    return renamed(old)

def enough(row, event) -> bool:
    return event.cents > 0

class Base(Projection):
    def added(self, cents: int) -> int:
        return self.cents + cents

class Summary(Base, stream="S", subjects="s.{aggregate}", table="summary", key="order_id"):
    """One row per order."""

    order_id: str
    cents: int = 0
    status: str = "new"
    lines: list[Line] = []

    step: ClassVar[int] = 10
    twice = functools.partialmethod(Base.added, 7)

    @on(Placed, when=enough)
    def placed(self, event: Placed) -> None:
        """What it does."""
        self.cents = self.added(event.doubled())  # why
        self.cents += prices.gross(tariffs.RATES["food"]) + self.step + self.twice()
        if event.first and not event.first.empty:
            self.lines.append(Line(event.first.sku))

    @on(Paid, when=small)
    @logged
    def paid(self, event: Paid) -> None:
        self.status = State.PAID

    @on(Noted, when=large)
    @unwrapped
    def noted(self, event: Noted) -> None:
        self.status = NOTE
''',
}

MORE = """
import dataclasses
import functools
import operator
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple

VERSION = 2
DEEP = 4
if VERSION > 1:
    LIMIT = 5
else:
    LIMIT = 6
try:
    from .fast import speed
except ImportError:
    speed = 3
SETUP = {}

def fill(table):
    table["a"] = 7

fill(SETUP)
for _n in range(3):
    SETUP[_n] = _n * 2
with suppress(ValueError):
    GUARDED = 9

@functools.lru_cache
def cached(n):
    return n * 2

@dataclasses.dataclass
class Money:
    amount: int = 0

    def doubled(self):
        return self.amount * 2

    @staticmethod
    def zero():
        return 0

    @classmethod
    def one(cls):
        return cls(1)

class Pair(NamedTuple):
    left: int = 1

class Kind(Enum):
    A = auto()
    B = 5

    def rank(self):
        return RANKS[self.name]

RANKS = {"A": 1, "B": 2}

def outer(n):
    def inner(m):
        return m + DEEP
    return inner(n)

def late(n):
    from .slow import crawl
    return crawl(n)

double = functools.partial(operator.mul, 2)
compose = lambda f, g: (lambda n: f(g(n)))
both = compose(cached, outer)
a, (b, c) = 1, (2, 3)
TABLE = [cached, outer]

def walrus(n):
    return (m := n + b)

async def later(n):
    return [k async for k in n]

def matched(n):
    match n:
        case {"a": x}:
            return x
        case Kind.A:
            return 1

def all_of(n):
    return (LIMIT, speed, SETUP, GUARDED, cached(n), Money(n).doubled(), Money.zero(), Money.one(), Pair().left,
        Kind.A.rank(), outer(n), late(n), double(n), both(n), a, c, TABLE, walrus(n), later, matched(n))
"""
"""Whatever else a module may consist of."""

ROWS = FILES["rows"].replace("from . import prices", "from . import prices\nfrom .more import all_of")
WIDE = {
    **{name: FILES[name] for name in ("__init__", "prices", "lines", "tools")},
    "slow": "SLOW = 3\n\ndef crawl(n):\n    return n // SLOW\n",
    "more": MORE,
    "rows": ROWS.replace("self.status = NOTE", "self.status = NOTE + str(all_of(3))"),
}

Load = Callable[..., Definition]


def loaded(folder: Path, files: dict[str, str]) -> Definition:
    """The definition in a package of these files, as a process of its own would have it."""
    before, known = dict(upcasting._steps), {name: m for name, m in sys.modules.items() if _ours(name)}
    upcasting._steps.clear()
    for name in known:
        del sys.modules[name]
    place = folder / "shop"
    place.mkdir(parents=True)
    try:
        for name, text in files.items():
            (place / f"{name}.py").write_text(text, "utf-8")
        for name, text in files.items():
            full = "shop" if name == "__init__" else f"shop.{name}"
            module = ModuleType(full)
            module.__file__, module.__package__ = str(place / f"{name}.py"), "shop"
            if name == "__init__":
                module.__path__ = [str(place)]
            else:
                setattr(sys.modules["shop"], name, module)
            sys.modules[full] = module
            exec(compile(text, module.__file__, "exec"), module.__dict__)  # noqa: S102 an import
        made = definition(sys.modules["shop.rows"].Summary)
        assert len(made.shape) == len(made.code) == 16
        return made
    finally:
        for name in [name for name in sys.modules if _ours(name)]:
            del sys.modules[name]
        sys.modules.update(known)
        upcasting._steps.clear()
        upcasting._steps.update(before)


def _ours(name: str) -> bool:
    return name == "shop" or name.startswith("shop.")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """The definition of `FILES` with replacements."""
    count = itertools.count()

    def load(*replacements: tuple[str, str]) -> Definition:
        files = dict(FILES)
        for old, new in replacements:
            [where] = [name for name, text in files.items() if old in text]
            files[where] = files[where].replace(old, new)
        return loaded(tmp_path / str(next(count)), files)

    return load


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # why", ""),
        ('"""What it does."""', '"""What it has always done."""'),
        ('        """What it does."""\n', ""),
        ('    """One row per order."""\n', ""),
        ("\ndef enough", "\n\n\n# moved down\n\ndef enough"),
        ("self.cents + cents", "(self.cents\n            + cents)"),
        ("cents: int) -> int:", "cents):"),
        ('subjects="s.{aggregate}"', 'subjects="s.{aggregate}", revision=2'),
        ("def rate():", "def unused():\n    return 1\n\ndef rate():"),
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
        ("self.status = State.PAID", "self.status = State.NEW"),
        ("self.status = NOTE", "self.status = NOTE.upper()"),
        ("return function(self, event)\n    return inner\n\ndef un", "return None\n    return inner\n\ndef un"),
        ("event.cents < 1000", "event.cents < 999"),
        ("over(5000)", "over(6000)"),
        ("event.cents > limit", "event.cents >= limit"),
        ("VAT = 119", "VAT = 116"),
        ("cents * rate()", "cents + rate()"),
        ('RATES["food"] = 105', 'RATES["food"] = 107'),
        ('"books": 107', '"books": 119'),
        ("ClassVar[int] = 10", "ClassVar[int] = 11"),
        ("partialmethod(Base.added, 7)", "partialmethod(Base.added, 8)"),
        ('PAID = "paid"', 'PAID = "settled"'),
        ("self.quantity < 1", "self.quantity < 2"),
        ('NOTE = "noted"', 'NOTE = "seen"'),
        ('type="paid"):\n    cents: int = 0', 'type="paid"):\n    cents: int = 1'),
    ],
)  # fmt: skip
def test_a_handler_and_what_it_leans_on_is_code(load: Load, old: str, new: str) -> None:
    one, other = load(), load((old, new))
    assert one.code != other.code
    assert one.shape == other.shape


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    cents: int = 0\n    status", "    cents: int = 1\n    status"),
        ("    cents: int = 0\n    status", "    cents: int | None = 0\n    status"),
        ("    cents: int = 0\n    status", "    cents: int = 0\n    more: str = ''\n    status"),
        ('stream="S"', 'stream="T"'),
        ('subjects="s.', 'subjects="t.'),
        ('key="order_id"', 'key="order_id", sequence="monotonic"'),
        ('key="order_id"', 'key="order_id", baseline=3'),
        ('key="order_id"', 'key="order_id", indexes=(Index("cents"),)'),
        ("schema=2", "schema=3"),
        ("    quantity: int = 1", "    amount: int = 1\n    quantity = 1"),
        ("    quantity: int = 1", "    quantity: int | None = 1"),
        ("    quantity: int = 1", "    quantity: int = 1\n    more: str = ''"),
    ],
)
def test_fields_options_and_handled_types_are_shape(load: Load, old: str, new: str) -> None:
    one, other = load(), load((old, new))
    assert outline(one) != outline(other)
    assert one.shape != other.shape


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return loaded(tmp_path_factory.mktemp("pristine"), FILES).code


@pytest.fixture(scope="module")
def wide_loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], tuple[bytes, bytes]]:
    def fingerprint(files: dict[str, str]) -> tuple[bytes, bytes]:
        made = loaded(tmp_path_factory.mktemp("wide"), files)
        return made.shape, made.code

    return fingerprint


def _identifiers(text: str) -> Counter[str]:
    """Count what a file names, and imports."""
    nodes = list(ast.walk(ast.parse(text)))
    return Counter(
        [node.id for node in nodes if isinstance(node, ast.Name)]
        + [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        + [node.name for node in nodes if isinstance(node, ast.alias)]
    )


@settings(max_examples=40)
@given(st.data())
def test_whatever_changes_in_one_place_of_a_package_is_noticed(
    wide_loaded: Callable[[dict[str, str]], tuple[bytes, bytes]], data: st.DataObject
) -> None:
    """Of a class at random, which is another change away from the one above."""
    places = st.sampled_from([(name, *site) for name, text in WIDE.items() for site in sites(text)])
    name, change, number = data.draw(places, "the class")
    one = WIDE | {name: changed(WIDE[name], change, number)}
    assume(
        not _identifiers(WIDE[name]) - _identifiers(one[name])
    )  # what nothing names any more is no code of it
    name = data.draw(st.sampled_from([name for name, text in one.items() if any(sites(text))]), "where")
    change, number = data.draw(st.sampled_from(list(sites(one[name]))), "the change")
    other = one | {name: changed(one[name], change, number)}
    assume(ast.dump(ast.parse(one[name])) != ast.dump(ast.parse(other[name])))
    found = []
    for files in (one, other):
        try:
            found.append(wide_loaded(files))
        except Exception:  # noqa: BLE001 no class any more
            reject()
    assert found[0] != found[1]


def test_the_layout_of_a_whole_package_is_not_code(
    tmp_path_factory: pytest.TempPathFactory, pristine: bytes
) -> None:
    laid_out = {name: ast.unparse(ast.parse(text)) for name, text in FILES.items()}
    assert loaded(tmp_path_factory.mktemp("laid-out"), laid_out).code == pristine


def test_every_process_comes_to_the_same_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for name, text in FILES.items():
        (tmp_path / "shop" / f"{name}.py").write_text(text, "utf-8")
    script = (
        "from shop.rows import Summary; from projectionist.projections import definition;"
        "print(definition(Summary).code.hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_a_helper_in_a_file_beside_is_followed_where_there_is_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    codes = []
    for number in (1, 2):
        for name in ("rowsfile", "helperfile"):
            sys.modules.pop(name, None)
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        (folder / "helperfile.py").write_text(f"def more(n):\n    return n + {number}\n", "utf-8")
        text = FLAT.replace("STREAM", f"S{number}")
        (folder / "rowsfile.py").write_text(text, "utf-8")
        codes.append(definition(__import__("rowsfile").Flat).code)
    assert codes[0] != codes[1]


FLAT = """
from projectionist.projections import Event, Projection, on
import helperfile

class Counted(Event, type="flat.counted"):
    n: int = 0

class Flat(Projection, stream="S", subjects="s.{aggregate}", table="flat", key="id"):
    id: str
    n: int = 0

    @on(Counted)
    def counted(self, event: Counted) -> None:
        self.n = helperfile.more(event.n)
"""


class Rates:
    """What a closure holds."""

    def __init__(self, rate: int) -> None:
        self.rate = rate


def made(helper: Callable[[int], int], rates: object, limit: int) -> Definition:
    class Held(Projection, stream="S", subjects="s.{aggregate}", table="held", key="id"):
        id: str
        n: int = 0

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.n = helper(limit) if rates else 0

    return definition(Held)


def test_what_a_closure_holds_is_followed_and_an_objects_state_is_said_not_to_be() -> None:
    one = made(lambda n: n + 1, None, 1)
    assert one.code == made(one.cls.paid.__closure__[0].cell_contents, None, 1).code  # type: ignore[attr-defined]
    assert one.code != made(lambda n: n + 2, None, 1).code
    assert one.code != made(one.cls.paid.__closure__[0].cell_contents, None, 2).code  # type: ignore[attr-defined]
    assert one.unfollowed == ()
    [told] = made(len, Rates(1), 1).unfollowed  # type: ignore[arg-type]
    assert "rates, an object of" in told
    assert told.endswith("Rates")


def test_code_without_source_is_read_from_its_bytecode() -> None:
    def compiled(text: str) -> Callable[[int], int]:
        space: dict[str, Callable[[int], int]] = {"__name__": __name__}  # type: ignore[dict-item]
        exec(text, space)  # noqa: S102 a function without source
        return space["one"]

    one, again, other = (compiled(f"def one(x):\n  return [y + {n} for y in range(x)]") for n in (1, 1, 2))
    assert made(one, None, 1).code == made(again, None, 1).code
    assert made(one, None, 1).code != made(other, None, 1).code


def test_what_has_no_code_of_its_own_is_known_by_its_name() -> None:
    assert made(abs, None, 1).code == made(abs, None, 1).code
    assert made(abs, None, 1).code != made(int, None, 1).code

"""A projection with a column of every kind, and values for each: good and bad ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from projectionist.outbox import Intent
from projectionist.projections import Delete, Event, Projection, on


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = -1
    BIG = 2**63 - 1


class Line(msgspec.Struct):
    sku: str
    count: int = 1
    weight: float = 0.0
    at: datetime | None = None


class Put(Event, type="put"):
    key: str
    field: str
    value: Any
    fails: bool = False


class Gone(Event, type="gone"):
    key: str


class Seen(Intent, provider="email"):
    log: list[str]


class Everything(Projection, stream="S", subjects="s.{aggregate}", table="everything", key="key"):
    key: str
    text: str = ""
    number: int = 0
    share: float = 0.0
    yes: bool = False
    amount: Decimal = Decimal(0)
    raw: bytes = b""
    at: datetime = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    day: date = date(2026, 1, 1)
    unique: UUID = UUID(int=0)
    colour: Colour = Colour.RED
    size: Size = Size.SMALL
    maybe_text: str | None = None
    maybe_number: int | None = None
    maybe_share: float | None = None
    maybe_yes: bool | None = None
    maybe_amount: Decimal | None = None
    maybe_raw: bytes | None = None
    maybe_at: datetime | None = None
    maybe_day: date | None = None
    maybe_unique: UUID | None = None
    maybe_colour: Colour | None = None
    items: list[Any] = []
    tree: dict[str, Any] = {}
    line: Line | None = None
    lines: list[Line] = []
    log: list[str] = []

    @on(Put, key="key")
    def put(self, event: Put) -> Iterator[Seen]:
        setattr(self, event.field, event.value)
        self.log.append(event.field)
        yield Seen(self.log)
        for column in (
            self.items,
            event.value,
        ):  # what a handler may do to its row, and must not do to others
            if isinstance(column, list):
                column.append("touched")
        if event.fails:
            raise ValueError(event.field)

    @on(Gone, key="key")
    def gone(self, event: Gone) -> Delete:
        return Delete()


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(characters, max_size=8) | st.sampled_from(
    ["", "it's", "\\", '"', "NULL", "{}", "a,b", "\x01\x7f"]
)
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [1e22, 1e-7, -0.0, 5e-324, 1.5e308]
)
offsets = st.timezones() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=offsets)  # noqa: DTZ001 zones follow
decimals = st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(
    allow_nan=False, allow_infinity=False, places=3
)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
a_line = st.builds(Line, texts, st.integers(-(2**63), 2**63 - 1), floats, st.none() | moments)

GOOD: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "number": st.integers(-(2**63), 2**63 - 1) | st.booleans(),
    "share": floats | st.integers(-(2**60), 2**60),
    "yes": st.booleans(),
    "amount": decimals | st.integers(),
    "raw": st.binary(max_size=8) | st.binary(max_size=4).map(bytearray),
    "at": moments,
    "day": st.dates(),
    "unique": st.uuids(),
    "colour": st.sampled_from(Colour),
    "size": st.sampled_from(Size),
    "items": st.lists(documents, max_size=3),
    "tree": st.dictionaries(texts, documents, max_size=3),
    "line": st.none() | a_line,
    "lines": st.lists(a_line, max_size=2),
}
GOOD |= {
    name: st.none() | GOOD[name.removeprefix("maybe_")]
    for name in Everything.__struct_fields__
    if "maybe" in name
}

BAD: dict[str, list[Any]] = {
    "text": [None, "\0", "\ud800", 1],
    "number": [None, 2**63, 1.0, "1"],
    "share": [float("nan"), float("inf"), 10**400, True],
    "yes": [1, "true"],
    "amount": [Decimal("NaN"), Decimal("Infinity"), 1.5, Decimal("1e200000")],
    "raw": ["text"],
    "at": [datetime(2026, 1, 1), date(2026, 1, 1)],  # noqa: DTZ001 that is the point
    "day": [datetime(2026, 1, 1)],  # noqa: DTZ001 as above
    "unique": ["00000000-0000-0000-0000-000000000000"],
    "colour": ["red", "green"],
    "maybe_colour": ["red"],
    "items": [None, {}, [{1: 2}], [float("nan")], [(1,)], ["\0"]],
    "tree": [None, [], {"\ud800": 1}, {1: 2}],
    "line": [{"sku": 1}, [1]],
    "lines": [[1], None],
    "key": ["another"],
}


def puts(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Event]:
    """Events that assign, fail, are refused, or delete."""
    good = st.sampled_from(sorted(GOOD)).flatmap(
        lambda name: st.builds(Put, keys, st.just(name), GOOD[name], st.sampled_from([False] * 5 + [True]))
    )
    bad = st.sampled_from(sorted(BAD)).flatmap(
        lambda name: st.builds(Put, keys, st.just(name), st.sampled_from(BAD[name]))
    )
    return good | good | good | bad | st.builds(Gone, keys)

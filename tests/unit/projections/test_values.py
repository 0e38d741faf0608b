"""Values in database form, column by column. An integration test shows what PostgreSQL gives back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from projectionist.projections.errors import BadValue, without_value
from projectionist.projections.tables import column_values

EAST = timezone(timedelta(hours=2))


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Shape(Enum):
    ROUND = "round"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize(
    ("canonical", "given", "kept"),
    [
        (column_values.text, "Ünal 🎈", "Ünal 🎈"),
        (column_values.text, Colour.RED, "red"),
        (column_values.text, Text("plain"), "plain"),
        (column_values.key_text, "k" * 512, "k" * 512),
        (column_values.integer, True, 1),
        (column_values.integer, Size.BIG, 3),
        (column_values.integer, -(2**63), -(2**63)),
        (column_values.real, 3, 3.0),
        (column_values.real, -0.0, -0.0),
        (column_values.boolean, False, False),
        (column_values.numeric, 5, "5"),
        (column_values.numeric, Decimal("1.50"), "1.50"),
        (column_values.numeric, Decimal("1E+3"), "1000"),
        (column_values.numeric, Decimal("-0"), "0"),
        (column_values.numeric, Decimal("-0.00"), "0.00"),
        (column_values.numeric, Decimal("0E+5"), "0"),
        (column_values.binary, bytearray(b"ab"), b"ab"),
        (column_values.binary, memoryview(b"ab"), b"ab"),
        (
            column_values.moment,
            datetime(2026, 1, 1, 0, 30, tzinfo=EAST),
            datetime(2025, 12, 31, 22, 30, tzinfo=UTC),
        ),
        (column_values.day, date(2026, 1, 1), date(2026, 1, 1)),
        (column_values.unique, UUID(int=7), UUID(int=7)),
        (column_values.member_of(Shape, column_values.text), Shape.ROUND, "round"),
    ],
)
def test_what_is_assigned_is_kept_as_the_database_has_it(canonical: Any, given: Any, kept: Any) -> None:
    assert canonical(given) == kept
    assert repr(canonical(given)) == repr(kept)
    assert type(canonical(given)) is type(kept)


@pytest.mark.parametrize(
    ("canonical", "given", "reason"),
    [
        (column_values.text, None, "is None and not optional: declare it `str | None`"),
        (column_values.text, 7, "takes a str and got a int"),
        (column_values.text, b"x", "takes a str and got a bytes"),
        (column_values.text, "a\0b", "holds a NUL character"),
        (column_values.text, "\ud800", "holds a lone surrogate"),
        (column_values.key_text, "k" * 513, "longer than 512 bytes"),
        (column_values.key_text, "ü" * 257, "longer than 512 bytes"),
        (column_values.integer, 2**63, "outside the range of 64 bits"),
        (column_values.integer, 1.0, "takes a int and got a float"),
        (column_values.integer, "1", "takes a int and got a str"),
        (column_values.real, float("nan"), "is NaN or infinite"),
        (column_values.real, float("inf"), "is NaN or infinite"),
        (column_values.real, True, "takes a float and got a bool"),
        (column_values.real, 10**400, "outside the range of a double"),
        (column_values.real, Decimal(1), "takes a float and got a Decimal"),
        (column_values.boolean, 1, "takes a bool and got a int"),
        (column_values.numeric, Decimal("NaN"), "is NaN or infinite"),
        (column_values.numeric, Decimal("-Infinity"), "is NaN or infinite"),
        (column_values.numeric, Decimal("sNaN"), "is NaN or infinite"),
        (column_values.numeric, Decimal("1e131072"), "more digits than numeric"),
        (column_values.numeric, Decimal("1e-16384"), "more digits than numeric"),
        (column_values.numeric, 1.5, "takes a Decimal and got a float"),
        (column_values.numeric, True, "takes a Decimal and got a bool"),
        (column_values.binary, "text", "takes a bytes and got a str"),
        (column_values.moment, datetime(2026, 1, 1), "has no time zone"),  # noqa: DTZ001 that is the point
        (column_values.moment, datetime(1, 1, 1, tzinfo=EAST), "outside the years 1 to 9999"),
        (column_values.moment, datetime.max.replace(tzinfo=UTC), "is kept as infinity"),
        (column_values.moment, datetime(1, 1, 1, 2, tzinfo=EAST), "is kept as infinity"),
        (column_values.moment, date(2026, 1, 1), "takes a datetime and got a date"),
        (column_values.day, datetime(2026, 1, 1, tzinfo=UTC), "takes a date and got a datetime"),
        (column_values.day, None, "takes a date and got a NoneType"),
        (column_values.unique, "00000000-0000-0000-0000-000000000007", "takes a UUID and got a str"),
        (column_values.member_of(Shape, column_values.text), "round", "takes a Shape and got a str"),
        (column_values.member_of(Shape, column_values.text), Colour.RED, "takes a Shape and got a Colour"),
    ],
)
def test_what_the_database_would_refuse_or_change_is_refused(canonical: Any, given: Any, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        canonical(given)


def test_the_second_of_two_equal_hours_is_only_an_instant() -> None:
    kept = column_values.moment(datetime(2026, 1, 1, tzinfo=UTC, fold=1))
    assert kept.fold == 0


def test_the_error_names_the_column_and_keeps_the_reason() -> None:
    bad = BadValue("is NaN or infinite").at("total")
    assert (str(bad), bad.column, bad.reason) == (
        "column 'total' is NaN or infinite",
        "total",
        "is NaN or infinite",
    )


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Invalid enum value 'secret `at`' - at `$.a`", "Invalid enum value - at `$.a`"),
        ("Invalid enum value 4711", "Invalid enum value"),
        ("Expected `int`, got `str` - at `$`", "Expected `int`, got `str` - at `$`"),
    ],
)
def test_messages_of_the_decoder_lose_the_value_they_quote(message: str, shown: str) -> None:
    assert without_value(ValueError(message)) == shown

"""The text of a document, as jsonb gives it back."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.projections.errors import BadValue
from projectionist.projections.tables import jsonb_text


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Line(msgspec.Struct):
    sku: str
    at: datetime | None = None
    price: Decimal = Decimal("1.50")
    ratio: float = 1e22


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # as PostgreSQL stores text: no NUL, no lone surrogate
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        ({"bb": 1, "a": [True, False, None], "ä": {}}, '{"a": [true, false, null], "bb": 1, "ä": {}}'),
        ({"ä": 1, "zz": 2, "b": 3}, '{"b": 3, "zz": 2, "ä": 1}'),
        (['"\\\b\f\n\r\t\x01\x7f/é'], '["\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f/é"]'),
        (
            [1e22, 1e-7, -0.0, 1.5, 10**30],
            "[10000000000000000000000, 0.0000001, 0.0, 1.5, 1" + "0" * 30 + "]",
        ),
        ([Colour.RED, Size.BIG], '["red", 3]'),
        (OrderedDict(b=1, a=2), '{"a": 2, "b": 1}'),
        (
            [Line("x", datetime(2026, 1, 1, tzinfo=UTC))],
            '[{"at": "2026-01-01T00:00:00Z", "sku": "x", "price": "1.50", "ratio": 10000000000000000000000}]',
        ),
    ],
)
def test_a_document_is_written_as_jsonb_gives_it_back(document: Any, text: str) -> None:
    assert jsonb_text.text(document) == text


@given(documents)
def test_the_text_means_the_document_and_is_its_own_canonical_form(document: Any) -> None:
    text = jsonb_text.text(document)
    again = json.loads(text)
    assert again == document
    assert jsonb_text.text(again) == text


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({1: "a"}, "key of type int"),
        ({None: "a"}, "key of type NoneType"),
        ({"\ud800": 1}, "key with a lone surrogate"),
        ({"a\0": 1}, "NUL"),
        (["\0"], "NUL"),
        (["\ud800"], "lone surrogate"),
        ([float("nan")], "NaN or infinity"),
        ([float("-inf")], "NaN or infinity"),
        ([(1, 2)], "holds a tuple"),
        ({"a": {1, 2}}, "holds a set"),
        ([10**5000], "too many digits"),
        ([object()], "holds a object, which has no form"),
        (defaultdict(list, {"a": [{2: 1}]}), "key of type int"),
    ],
)
def test_what_jsonb_would_refuse_or_change_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        jsonb_text.text(document)

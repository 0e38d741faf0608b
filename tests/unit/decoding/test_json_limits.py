"""What a body must not hold."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core import json_limits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": "\0"}', "NUL byte"),
        (b'{"a": "\\u0000"}', "escaped NUL"),
        (b'{"a": "\\\\\\u0000"}', "escaped NUL"),
        (b'{"\\u0000": 1}', "escaped NUL"),
        (b'"\\ud800"', "surrogate"),
        (b'"\\udc00"', "surrogate"),
        (b'"\\ud800\\ud800\\udc00"', "surrogate"),
        (b'"\\ud800 \\udc00"', "surrogate"),
        (b'"\\ud83d\\ude00\\ude00"', "surrogate"),
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
        (b"[" * 1_000_000, "deeper than 64"),
    ],
)
def test_it_is_refused(data: bytes, says: str) -> None:
    assert says in (json_limits.fault(data, 64) or "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"a": "\\\\u0000"}',
        b'"\\ud83d\\ude00"',
        b'"\\uD83D\\uDE00\\uD83D\\uDE00"',
        "{'ä': '€😀'}".encode(),
        b"[" * 64 + b"]" * 64,
        b"[" + b"[]," * 500 + b"[]]",
        json.dumps({"text": "[" * 100, "escaped": '"' + "{" * 100}).encode(),
    ],
)
def test_it_is_let_through(data: bytes) -> None:
    assert json_limits.fault(data, 64) is None


@given(JSON)
def test_no_document_that_postgresql_takes_is_refused(document: object) -> None:
    for data in (json.dumps(document).encode("utf-8", "surrogatepass"), msgspec.json.encode(document)):
        if b"\\u0000" not in data:
            assert json_limits.fault(data, 64) is None


NESTED = st.recursive(
    st.just("1"), lambda inner: st.lists(inner, max_size=3).map(lambda it: f"[{','.join(it)}]"), max_leaves=30
)


def depth(text: str) -> int:
    """Reckon it bracket by bracket."""
    at = most = 0
    for letter in text:
        at += (letter == "[") - (letter == "]")
        most = max(most, at)
    return most


@pytest.mark.parametrize("few", [0, 10_000])
@given(text=NESTED, most=st.integers(0, 6))
def test_the_depth_is_that_of_the_brackets(few: int, text: str, most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_limits, "_FEW", few)
        assert (json_limits.fault(text.encode(), most) is not None) == (depth(text) > most)


@given(st.binary())
def test_whatever_the_bytes_there_is_an_answer(data: bytes) -> None:
    assert json_limits.fault(data, 8) is None or json_limits.fault(data, 8)

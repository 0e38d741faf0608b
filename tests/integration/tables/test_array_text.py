"""A column as one text: PostgreSQL reads from it what was written into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projectionist.projections.tables.array_text import Value, array_text

Read = Callable[[str, str], list[Any]]
"""What an array of this type holds, written as this text."""
SAME_CONNECTION = settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
ODD = st.sampled_from(
    ["", "null", "NULL", "{}", '"', "\\", '\\"', "\\n", "a\nb", "\x1f", ",", " ", "\x7f", "\u2028"]
)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.fixture
def read(database: str) -> Iterator[Read]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database))

        def read(kind: str, text: str) -> list[Any]:
            values: list[Any] = runner.run(connection.fetchval(f"select $1::text::{kind}[]", text))
            return values

        yield read
        runner.run(connection.close())


@SAME_CONNECTION
@given(values=st.lists(st.none() | TEXTS | ODD, max_size=6))
def test_texts_come_back_from_the_text_of_an_array(read: Read, values: list[Value]) -> None:
    assert read("text", array_text(values)) == values


@SAME_CONNECTION
@given(
    numbers=st.lists(st.none() | WHOLE, max_size=6), answers=st.lists(st.none() | st.booleans(), max_size=6)
)
def test_numbers_and_answers_come_back_too(read: Read, numbers: list[Value], answers: list[Value]) -> None:
    assert read("bigint", array_text(numbers)) == numbers
    assert read("boolean", array_text(answers)) == answers

"""The names of states in the code are those that the tables allow."""

from __future__ import annotations

import re
from enum import StrEnum

import asyncpg
import pytest
from tests.support.lab import SCHEMA

from projectionist.core.states import Cause, Decided, Effect, Entry, Head
from projectionist.projections.judge import Verdict

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("table", "column", "names"),
    [
        ("inbox", "state", Entry),
        ("inbox", "verdict", Verdict),
        ("positions", "head", Head),
        ("parked", "cause", Cause),
        ("decisions", "kind", Decided),
        ("intents", "state", Effect),
    ],
)
async def test_a_column_allows_exactly_the_states_of_the_code(
    database: str, table: str, column: str, names: type[StrEnum]
) -> None:
    connection = await asyncpg.connect(database)
    try:
        (text,) = [
            row["text"]
            for row in await connection.fetch(
                "select pg_get_constraintdef(oid) as text from pg_constraint"
                " where conrelid = $1::text::regclass and contype = 'c'",
                f"{SCHEMA}.{table}",
            )
            if re.search(rf"\b{column} = ANY", row["text"])
        ]
    finally:
        await connection.close()

    assert set(re.findall(r"'(\w+)'::text", text)) == {str(name) for name in names}

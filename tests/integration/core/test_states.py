"""The names of states in the code are those that the tables allow."""

from __future__ import annotations

import re
from enum import StrEnum

import asyncpg
import pytest
from tests.support.servers import SCHEMA

from projectionist.core.states import (
    AggregateState,
    Cause,
    DecisionKind,
    InboxState,
    IntentState,
    ItemState,
    OperationOutcome,
)
from projectionist.projections.folding.version_verdict import Verdict

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("table", "column", "names"),
    [
        ("inbox", "state", InboxState),
        ("inbox", "verdict", Verdict),
        ("positions", "head", AggregateState),
        ("parked", "cause", Cause),
        ("decisions", "kind", DecisionKind),
        ("operations", "outcome", OperationOutcome),
        ("operation_items", "state", ItemState),
    ],
)
async def test_a_column_allows_exactly_the_states_of_the_code(
    database: str, table: str, column: str, names: type[StrEnum]
) -> None:
    assert await allowed(database, table, column) == {str(name) for name in names}


async def test_an_intent_is_open_with_a_state_in_the_outbox_or_done_with(database: str) -> None:
    done = await allowed(database, "intents", "state") - {"open"}

    assert done == {IntentState.SENT, IntentState.DISCARDED, IntentState.CANCELLED}
    assert await allowed(database, "outbox", "state") == set(IntentState) - done - {IntentState.SCHEDULED}


async def allowed(database: str, table: str, column: str) -> set[str]:
    """What the CHECK of a column lists."""
    connection = await asyncpg.connect(database)
    try:
        texts = await connection.fetch(
            "select pg_get_constraintdef(oid) as text from pg_constraint"
            " where conrelid = $1::text::regclass and contype = 'c'",
            f"{SCHEMA}.{table}",
        )
    finally:
        await connection.close()
    (text,) = [row["text"] for row in texts if re.search(rf"\b{column} = ANY", row["text"])]
    return set(re.findall(r"'(\w+)'::text", text))

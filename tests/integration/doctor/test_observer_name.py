"""An observer is known by its session, whatever the schema is called."""

from __future__ import annotations

import asyncpg
import pytest

from projectionist.runner.process.observe import session_name

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("schema", ["größe", "a" * 60, "a" * 61])
async def test_an_observer_of_a_schema_by_any_name_is_found(database: str, schema: str) -> None:
    name = session_name(schema)
    connection = await asyncpg.connect(database, server_settings={"application_name": name})
    try:
        assert await connection.fetchval("show application_name") == name
    finally:
        await connection.close()
    assert name != session_name("projectionist")

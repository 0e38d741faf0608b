"""Connections to PostgreSQL, and the keys of advisory locks."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
"""A connection of one's own or one lent by a pool: code that runs statements does not care."""


def advisory_key(schema: str, name: str) -> int:
    """The advisory lock of `name` in `schema`. They are per database, which may hold several schemas."""
    text = f"{len(schema)}:{schema}{name}"
    digest = blake2b(text.encode(), digest_size=8, person=b"projectionist").digest()
    return int.from_bytes(digest, "big", signed=True)

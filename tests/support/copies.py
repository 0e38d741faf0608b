"""Copies of a database beside the original: in the same cluster, and as a dump restored in another one."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from tests.support.servers import Servers


@asynccontextmanager
async def copy_beside(servers: Servers, database: str) -> AsyncIterator[str]:
    """The URL of a copy in the same cluster, dropped afterwards. Sessions of the original are ended for it."""
    parts = urlsplit(database)
    name = parts.path[1:]
    admin = await asyncpg.connect(servers.postgres_url)
    try:
        await copy_of(admin, name)
        yield parts._replace(path=f"/{name}_copy").geturl()
        await admin.execute(f"drop database {name}_copy with (force)")
    finally:
        await admin.close()


async def copy_of(admin: asyncpg.Connection[asyncpg.Record], name: str) -> None:
    """Copy the database `name` to `name`_copy. Who works on it is let back when that is done, and not before."""
    await admin.execute(f"alter database {name} with allow_connections false")
    try:
        await admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1", name
        )
        await admin.execute(f"create database {name}_copy template {name}")
    finally:
        await admin.execute(f"alter database {name} with allow_connections true")


@contextmanager
def dump_elsewhere(servers: Servers, database: str) -> Iterator[str]:
    """The URL of a dump of the database, restored in another cluster under the same name."""
    name = urlsplit(database).path[1:]
    programs = servers._servers.postgres._programs
    with Servers() as other:
        there = urlsplit(other.postgres_url)._replace(path=f"/{name}").geturl()
        subprocess.run(
            [programs / "psql", "-q", other.postgres_url, "-c", f"create database {name}"], check=True
        )
        loaded(servers, there, dumped(servers, database))
        yield there


def dumped(servers: Servers, database: str) -> bytes:
    """A dump of the database."""
    command: list[str | Path] = [servers._servers.postgres._programs / "pg_dump", database]
    return subprocess.run(command, check=True, capture_output=True).stdout


def loaded(servers: Servers, database: str, dump: bytes) -> None:
    """Restore a dump there."""
    psql = servers._servers.postgres._programs / "psql"
    command: list[str | Path] = [psql, "-q", "-v", "ON_ERROR_STOP=1", database]
    subprocess.run(command, check=True, input=dump, capture_output=True)

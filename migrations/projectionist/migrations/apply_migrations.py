"""Brings a database to this code's migrations: one transaction each, one applier at a time."""

from __future__ import annotations

from importlib.metadata import version

import asyncpg

from projectionist.core.postgres.connections import Connection, advisory_key
from projectionist.core.postgres.lock_probe import refuse_weak_locks
from projectionist.core.postgres.statements import Statements
from projectionist.core.server_versions import refuse_old_postgres
from projectionist.core.settings.settings import Postgres
from projectionist.migrations.catalog import (
    PACKAGE,
    AppliedMigration,
    Migration,
    MigrationError,
    pending,
    released,
)

PATIENCE_S = 60.0
"""How long an applier waits for another one before it says so and gives up."""


async def plan(connection: Connection, schema: str) -> list[Migration]:
    """Return the migrations `migrate` would apply now, in order; writes nothing.

    Raises MigrationError where the database is newer than this code or a released migration was edited.
    """
    return pending(released(schema), await _applied(connection, schema))


async def refuse_unprepared(connection: Connection, postgres: Postgres) -> None:
    """Raise MigrationError if the database lacks tables of this release, LockShared if it lacks our locks.

    Raises ServerTooOld where the server is too old for this release.
    """
    refuse_old_postgres(connection.get_server_version().major, str(postgres.url))
    await refuse_weak_locks(connection, postgres)
    if await plan(connection, postgres.schema):
        raise MigrationError(
            "the database lacks tables of this release", remedy="Run `projectionist migrate`"
        )


async def migrate(connection: Connection, schema: str, *, patience_s: float = PATIENCE_S) -> list[Migration]:
    """Apply everything that is pending and return it; empty when the database was up to date.

    Safe to call from several processes at once: one applies, the others wait and find nothing to do. A
    migration and its row in the ledger are one transaction; a failed one leaves those before it applied.
    The connection must not be inside a transaction.
    """
    done: list[Migration] = []
    while migration := await _apply_next(connection, schema, patience_s):
        done.append(migration)
    return done


def script(migration: Migration, schema: str) -> str:
    """Return what `migrate` does for one migration, as text for `psql`: by hand one need not migrate."""
    statements = Statements(PACKAGE, schema)
    record = statements["record"]
    for number, value in enumerate(_row(migration), 1):
        literal = f"'\\x{value.hex()}'" if isinstance(value, bytes) else f"'{value}'"
        record = record.replace(f"${number}", literal)
    first = [statements["create_schema"]] if migration.number == 1 else []
    steps = [f"{step.strip().removesuffix(';')};" for step in (*first, migration.sql, record)]
    return "\n\n".join((f"begin; -- migration {migration.name}", *steps, "commit;"))


async def _apply_next(connection: Connection, schema: str, patience_s: float) -> Migration | None:
    statements = Statements(PACKAGE, schema)
    async with connection.transaction():
        await _take_lock(connection, statements, schema, patience_s)
        # Read after the lock, by a statement of its own: who held it before us may have applied everything.
        waiting = await plan(connection, schema)
        if not waiting:
            return None
        await _run(connection, statements, schema, waiting[0])
        return waiting[0]


async def _take_lock(connection: Connection, statements: Statements, schema: str, patience_s: float) -> None:
    await connection.execute(statements["wait_for_migration_lock"], f"{patience_s * 1000:.0f}ms")
    try:
        await connection.execute(statements["lock_migrations"], advisory_key(schema, "migrate"))
    except asyncpg.LockNotAvailableError:
        raise MigrationError(
            f"another process has been migrating schema {schema!r} for more than {patience_s:g} s",
            remedy="Wait for it to end, then run this again",
        ) from None
    await connection.execute(statements["guard_readers"])


async def _run(connection: Connection, statements: Statements, schema: str, migration: Migration) -> None:
    try:
        if not await connection.fetchval(statements["has_schema"], schema):
            await connection.execute(statements["create_schema"])
        await connection.execute(migration.sql)
        await connection.execute(statements["record"], *_row(migration))
    except asyncpg.PostgresError as error:
        raise MigrationError(
            f"migration {migration.name} failed on schema {schema!r}: {error} (SQLSTATE {error.sqlstate})",
            remedy=_remedy(error, schema),
        ) from error


def _row(migration: Migration) -> tuple[int, str, bytes, str]:
    return migration.number, migration.name, migration.checksum, version("projectionist")


def _remedy(error: asyncpg.PostgresError, schema: str) -> str:
    kept = "Nothing of it was kept"
    match error:
        case asyncpg.InsufficientPrivilegeError():
            return f"{kept}; migrate with a role that may create schema {schema!r} or owns it"
        case asyncpg.LockNotAvailableError():
            return f"{kept}; a table was in use for too long, run this again in a quieter moment"
        case asyncpg.DuplicateTableError():
            return f"{kept}; the schema holds tables of another program, choose another with postgres.schema"
        case _:
            return kept


async def _applied(connection: Connection, schema: str) -> list[AppliedMigration]:
    statements = Statements(PACKAGE, schema)
    if not await connection.fetchval(statements["has_ledger"], schema):
        return []
    return [AppliedMigration(*row) for row in await connection.fetch(statements["applied"])]

"""Checks the roles of the database: who has more than its duty takes, who less, and who holds locks of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.rights import Duty, RoleChange, missing, of_roles, recorded
from projectionist.core.postgres.search_path import default_search_path
from projectionist.core.postgres.statements import Statements
from projectionist.ops.doctor.check import Check, attention, note, well
from projectionist.runner.database.barrier import barrier_key

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row

ABOUT = "roles"
_LOCKS = ("migrate", "purge", "read models", "staged intents")


async def look(connection: Connection, schema: str, consumers: Sequence[int]) -> list[Check]:
    """Check everything about roles, in a database of this release; `consumers` by their numbers."""
    statements = Statements("projectionist.ops", schema)
    duties = await recorded(connection, schema)
    lacking = await missing(connection, schema, of_roles(duties))
    path = [name.strip().strip('"') for name in (await default_search_path(connection)).split(",")]
    facts = await connection.fetchrow(
        statements["select_role_facts"], schema, duties.get(Duty.RUNNER, []), path
    )
    assert facts is not None, "one row, always"
    keys = [barrier_key(schema, number) for number in consumers]
    keys += [advisory_key(schema, name) for name in _LOCKS]
    holders = await connection.fetch(statements["select_lock_strangers"], keys)
    found = [*_owning(facts), *_everybody(facts, schema), *_lacking(lacking), *map(_stranger, holders)]
    return found or [well(ABOUT, "rights", "each role has what its duty takes")]


def _owning(facts: Row) -> Iterator[Check]:
    if facts["owning"]:
        say = note if facts["local"] else attention
        yield say(
            ABOUT,
            "runner",
            f"runners work as {', '.join(map(repr, facts['owning']))}, who may drop and change every table of ours",
            "Make a role for them, and name it: projectionist roles apply --runner ROLE (docs/operations/roles.md)",
        )


def _everybody(facts: Row, schema: str) -> Iterator[Check]:
    for name in facts["open_schemas"]:
        yield attention(
            ABOUT,
            "search path",
            f"every role may create in schema {name!r}, where sessions look for names",
            f'revoke create on schema "{name}" from public',
        )
    if facts["of_everybody"]:
        yield attention(
            ABOUT,
            "public",
            f"every role has rights on {', '.join(facts['of_everybody'])}",
            f'revoke all on all tables in schema "{schema}" from public; revoke all on schema "{schema}" from public',
        )


def _lacking(changes: Sequence[RoleChange]) -> Iterator[Check]:
    if changes:
        names = ", ".join(sorted({repr(change.role) for change in changes}))
        yield attention(
            ABOUT,
            "rights",
            f"{names} lack rights of their duties, such as: {changes[0].statement}",
            "projectionist roles plan, and apply",
        )


def _stranger(row: Row) -> Check:
    return attention(
        ABOUT,
        "locks",
        f"session {row['pid']} of role {row['role']!r} ({row['name'] or 'without a name'}) holds a lock of ours: "
        "consumers wait for it",
        f"End it: select pg_terminate_backend({row['pid']}); keep such roles out of this database",
    )

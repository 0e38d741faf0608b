"""Whether this database is the one that its schema was at home in, or a copy of it.

Every copy of a database holds what the original holds. So a row says where the schema is at home, and whoever runs on
it compares that with the server it finds itself on. What came there by a failover or a restore in its place goes on by
itself, under a new token; what is a copy beside the original neither reads nor sends until somebody has decided.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row

ADOPT = "`projectionist adopt --database --reason …`"
TIMES = 5
"""How often the row is read again because somebody else has written it meanwhile."""


class Place(msgspec.Struct, frozen=True):
    """A database, by what tells it from others."""

    system: str | None
    """Identifier of the cluster; None where this role may not read it."""
    timeline: int
    database: int
    name: str
    home: int
    """The number of our table of consumers, which a dump does not bring along."""
    beside: bool = False
    """Whether the table of that number that the schema remembers is another schema's of this database now."""

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.database}) of cluster {self.system or 'unknown'}, timeline {self.timeline}"
        )


class Owner(msgspec.Struct, frozen=True):
    """The database of a schema, under the token that its durables bear."""

    schema: str
    place: Place
    token: str
    before: str | None
    """The token until the last failover, restore or adoption."""


class DatabaseCopied(ProjectionistError):
    """This database is a copy. Nothing is read into it and nothing sent from it until somebody has decided."""


class Likeness(Enum):
    """How the place of a schema is to the one it was at home in."""

    SAME = "same"
    RENAMED = "renamed"
    MOVED = "moved"
    """The same database after a failover or a restore in its place."""
    OTHER = "other"


def likeness(home: Place, here: Place) -> Likeness:
    """Compare where a schema was at home with where it is. Pure.

    In one cluster a database that was renamed keeps its number, and one that was restored in its place keeps its name;
    a copy beside it has neither. A schema that was restored in its database has another table of consumers; where the
    one it had is still there, it is a copy too. Without the cluster's identifier all numbers have to be those that are
    remembered.
    """
    if home.system is None or here.system is None:
        if (home.database, home.home) != (here.database, here.home):
            return Likeness.OTHER
    elif home.system != here.system or (home.database != here.database and home.name != here.name):
        return Likeness.OTHER
    if here.beside:
        return Likeness.OTHER
    if (home.timeline, home.database, home.home) != (here.timeline, here.database, here.home):
        return Likeness.MOVED
    named = home.name == here.name and (home.system == here.system or here.system is None)
    return Likeness.SAME if named else Likeness.RENAMED


async def owner(connection: Connection, schema: str) -> Owner:
    """Return who this database is; raises DatabaseCopied if it is a copy of the one that its schema was at home in."""
    sql = Statements("projectionist.core", schema)
    here = await place(connection, sql)
    for _ in range(TIMES):
        row = await connection.fetchrow(sql["select_owner"])
        if row is None and here is not None:
            await connection.execute(sql["insert_owner"], *_columns(here))
            continue
        if row is None:
            break
        found = _owner(schema, row)
        if here is None:  # it takes no writes, and nobody can do anything on it
            return found
        like = likeness(found.place, here)
        if like is Likeness.SAME:
            return found
        if like is Likeness.OTHER:
            copy = f"this database, {here}, is a copy: its schema {schema!r} was at home in {found.place}"
            if here.beside:
                copy = f"schema {schema!r} is a copy inside of its database, {here}: what it was made of is there"
            raise DatabaseCopied(
                copy,
                remedy=f"If this one is the real one from now on, {ADOPT}; until then nothing is read or sent",
            )
        if like is Likeness.RENAMED:
            await connection.execute(
                sql["rename_owner"], here.system or found.place.system, here.name, found.token
            )
        else:
            await move(connection, found, here, follow=True)
    raise asyncpg.CannotConnectNowError("the row that names the owner of this schema cannot be had yet")


async def move(connection: Connection, found: Owner, here: Place, *, follow: bool) -> None:
    """Make this database the schema's home from now on; `follow`: what bears the token so far may be taken over."""
    sql = Statements("projectionist.core", found.schema)
    await connection.execute(sql["replace_owner"], *_columns(here), found.token, follow)


async def recorded(connection: Connection, schema: str) -> Owner | None:
    """Return what the schema says of its home, wherever it is; None before anybody ran on it."""
    row = await connection.fetchrow(Statements("projectionist.core", schema)["select_owner"])
    return None if row is None else _owner(schema, row)


async def place(connection: Connection, sql: Statements) -> Place | None:
    """Return which database this is; None while it takes no writes."""
    row = await connection.fetchrow(sql["select_database_identity"])
    assert row is not None, "one row, always"
    if row["timeline"] is None:
        return None
    found = Place(**dict(row))
    try:
        async with connection.transaction():  # a refusal must not end the caller's
            system: str | None = await connection.fetchval(sql["select_system_identifier"])
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.UndefinedFunctionError,
        asyncpg.FeatureNotSupportedError,
    ):
        return found
    return msgspec.structs.replace(found, system=system)


def _columns(here: Place) -> tuple[object, ...]:
    return here.system, here.timeline, here.database, here.name, here.home


def _owner(schema: str, row: Row) -> Owner:
    home = Place(
        system=row["system"],
        timeline=row["timeline"],
        database=row["database"],
        name=row["name"],
        home=row["home"],
    )
    return Owner(schema, home, row["token"], row["before"])

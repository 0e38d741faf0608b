"""The migrations this code brings along, and the pure judgement of what a database still lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from importlib.resources import files

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.identifiers import quoted
from projectionist.core.postgres.statements import SCHEMA

PACKAGE = "projectionist.migrations"

_NUMBERED = re.compile(r"(?P<number>\d{4})_[a-z0-9_]+\.sql")


class MigrationError(ProjectionistError):
    """The database does not fit this code's migrations, or one of them failed. Nothing is half applied."""


class Migration(msgspec.Struct, frozen=True):
    """One numbered file: `sql` names its schema, `checksum` is of the file and so the same everywhere."""

    number: int
    name: str
    checksum: bytes
    sql: str


class AppliedMigration(msgspec.Struct, frozen=True):
    """A row of the ledger."""

    number: int
    name: str
    checksum: bytes
    release: str


def released(schema: str) -> list[Migration]:
    """Return every migration of this code, in order, written for `schema`."""
    name = quoted(schema, what="schema")
    found = []
    for entry in files(PACKAGE).joinpath("sql").iterdir():
        if match := _NUMBERED.fullmatch(entry.name):
            text = entry.read_text("utf-8")
            checksum = blake2b(text.encode(), digest_size=16).digest()
            stem = entry.name.removesuffix(".sql")
            found.append(Migration(int(match["number"]), stem, checksum, text.replace(SCHEMA, name)))
    return sorted(found, key=lambda migration: migration.number)


def pending(known: Sequence[Migration], applied: Sequence[AppliedMigration]) -> list[Migration]:
    """Return what `known` holds beyond `applied`; raise MigrationError where the two contradict each other."""
    if len(applied) > len(known):
        newest = applied[-1]
        raise MigrationError(
            f"the database is newer than this code: release {newest.release} applied migration {newest.name}",
            remedy=f"Run release {newest.release} or a later one; migrations only go forward",
        )
    for ours, theirs in zip(known, applied, strict=False):
        if (ours.number, ours.name) != (theirs.number, theirs.name):
            raise MigrationError(
                f"the database holds migration {theirs.name} where this code has {ours.name}",
                remedy="They are different lines of development: run the release that made the database",
            )
        if ours.checksum != theirs.checksum:
            raise MigrationError(
                f"migration {ours.name} was edited after release {theirs.release} applied it",
                remedy="Restore the file as it was released and put the change into a new migration",
            )
    return list(known[len(applied) :])

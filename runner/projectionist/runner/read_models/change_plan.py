"""Plans what `migrate` does to each consumer's tables: reads what is there, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.projections.tables.ddl import NeedsRebuild
from projectionist.runner.database.queries import Queries
from projectionist.runner.read_models.indexes import missing
from projectionist.runner.read_models.table_statements import KeptTable, created, evolved, publics

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import Definition


class ReadModelError(ProjectionistError):
    """A read model cannot be made or changed as its class says."""


class Change(msgspec.Struct, frozen=True):
    """The work of `migrate` for one consumer."""

    consumer: str
    what: str
    statements: tuple[str, ...] = ()
    rebuild: tuple[str, ...] = ()
    """Why existing rows cannot follow; then nothing is done, and a rebuild is needed."""
    notes: tuple[str, ...] = ()
    renamed_from: str | None = None
    indexes: tuple[str, ...] = ()
    """Statements that make indexes beside everybody's work: after the change, each for itself."""


class ChangePlanner:
    """Plans the changes of an app's read models in one database."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._queries = Queries(connection, schema)
        self._sql = Statements("projectionist.runner", schema)

    async def plan(self, definitions: Iterable[Definition]) -> list[Change]:
        """Return what `apply` would do, consumer by consumer; nothing for those that are as their class says."""
        known = {row["name"]: row for row in await self._connection.fetch(self._sql["select_consumers"])}
        owners = {
            row["name"]: row["consumer"]
            for row in await self._connection.fetch(self._sql["select_name_owners"])
        }
        changes = [await self._planned(definition, known, owners) for definition in definitions]
        return [change for change in changes if change is not None]

    async def _planned(
        self, d: Definition, known: dict[str, Record], owners: dict[str, str]
    ) -> Change | None:
        row = known.get(d.name)
        former = next((name for name in d.formerly if name in known), None) if row is None else None
        if former is not None:
            row = known[former]
        self._check_owner(d, owners, {d.name, former})
        if row is None:
            _check_key_name(d, known)
            await self._check_retired(d)
            return Change(consumer=d.name, what="create", statements=tuple(created(d, self._schema, 1)))
        if row["revision"] != d.revision:
            return _revised(d, row)
        indexes = await missing(self._queries, d, row["generation"])
        if row["shape"] == d.shape and former is None:
            return (
                Change(consumer=d.name, what="index", indexes=indexes)
                if indexes and row["build"] is None
                else None
            )
        return await self._evolved(d, row, former, indexes)

    async def _evolved(
        self, d: Definition, row: Record, former: str | None, indexes: tuple[str, ...]
    ) -> Change:
        """Return the change of live tables to the shape of the class, or why it takes a rebuild."""
        if row["build"] is not None:
            raise ReadModelError(
                f"a build of {d.name!r} is open, which would lack this change",
                remedy="Let `projectionist rebuild` finish it, or --abort it",
            )
        kept = await self._kept(row)
        changed = evolved(d, self._schema, row["generation"], kept)
        if isinstance(changed, NeedsRebuild):
            return Change(consumer=d.name, what="needs a rebuild", rebuild=changed.reasons)
        notes = tuple([note async for note in self._stepped_over(d, row["number"])])
        return Change(
            consumer=d.name,
            what="rename" if former else "change",
            statements=tuple(changed),
            notes=notes,
            renamed_from=former,
            indexes=indexes,
        )

    async def _check_retired(self, d: Definition) -> None:
        """Refuse the name of a consumer that was retired: its intent keys would be made once more."""
        for row in await self._connection.fetch(self._sql["select_retired_names"], [d.name]):
            raise ReadModelError(
                f"a consumer named {d.name!r} was retired by {row['who']} at {row['at'].isoformat(timespec='seconds')}",
                remedy='Its name stays reserved, since providers remember its keys: give this one another, name="…"',
            )

    def _check_owner(self, d: Definition, owners: dict[str, str], names: set[str | None]) -> None:
        for public in publics(d):
            owner = owners.get(public)
            if owner is not None and owner not in names:
                raise owned_by_another(d, public, owner)

    async def _stepped_over(self, d: Definition, number: int) -> Any:
        for row in await self._connection.fetch(self._sql["count_ignored_by_type"], number, sorted(d.known)):
            yield f"{row['n']} events of {row['type']} were stepped over before it was handled: rebuild to include them"

    async def _kept(self, row: Record) -> dict[str, KeptTable]:
        given = (row["view"], row["generation"])
        found = await self._connection.fetchrow(self._sql["select_generation"], *given)
        assert found is not None, "generations stay on record"
        return msgspec.json.decode(found["tables"], type=dict[str, KeptTable])


def owned_by_another(d: Definition, public: str, owner: str) -> ReadModelError:
    return ReadModelError(
        f"table {public} of {d.name!r} belongs to consumer {owner!r}",
        remedy=f'If the class was renamed, say formerly=("{owner}",): inbox and intent keys hang on it',
    )


def _revised(d: Definition, row: Record) -> Change:
    """Return the rebuild that another revision takes: rows of one generation are no start for another."""
    if d.revision < row["revision"]:
        raise ReadModelError(
            f"{d.name!r} runs revision {row['revision']}, this code is revision {d.revision}",
            remedy="Deploy the newer code, or go back with `projectionist generations rollback`",
        )
    reason = f"its revision is raised from {row['revision']} to {d.revision}: `rebuild` builds it, and so does `run`"
    return Change(consumer=d.name, what="needs a rebuild", rebuild=(reason,))


def _check_key_name(d: Definition, known: dict[str, Record]) -> None:
    """Refuse a name that a consumer bore before it was renamed: both would make the same intent keys."""
    for row in known.values():
        if row["key_name"] == d.name:
            raise ReadModelError(
                f"the intent keys of {row['name']!r} are made of its first name, {d.name!r}",
                remedy='Give this consumer another name, name="…"; '
                f'or, if it is the same one, say formerly=("{row["name"]}",)',
            )

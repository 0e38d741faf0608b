"""Plans what `migrate` does to each consumer's tables: reads what is there, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.projections.compiled.definition import Kind
from projectionist.projections.tables.ddl import NeedsRebuild
from projectionist.runner.database.queries import Queries
from projectionist.runner.read_models.indexes import missing
from projectionist.runner.read_models.table_statements import KeptTable, created, evolved, publics

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition


class ReadModelError(ProjectionistError):
    """A read model cannot be made or changed as its class says."""


JOINS = (
    "the set has applied events without it: `projectionist rebuild` builds it, and it joins the others then"
)
RETIRES = "its class lists it no more: no event is applied to it, its rows stay as they are until `generations drop`"


class Change(msgspec.Struct, frozen=True):
    """The work of `migrate` for one view."""

    view: str
    """With the name of its set, where it is of one."""
    what: str
    statements: tuple[str, ...] = ()
    rebuild: tuple[str, ...] = ()
    """Why existing rows cannot follow; then nothing is done, and a rebuild is needed."""
    notes: tuple[str, ...] = ()
    renamed_from: str | None = None
    indexes: tuple[str, ...] = ()
    """Statements that make indexes beside everybody's work: after the change, each for itself."""
    retires: int | None = None
    """The number of a view that its set lists no more."""


class ChangePlanner:
    """Plans the changes of an app's read models in one database."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._queries = Queries(connection, schema)
        self._sql = Statements("projectionist.runner", schema)

    async def plan(self, definitions: Iterable[ConsumerDefinition]) -> list[Change]:
        """Return what `apply` would do, view by view; nothing for those that are as their class says.

        What is renamed comes first, since what is new may belong to it.
        """
        known = {row["view_name"]: row for row in await self._connection.fetch(self._sql["select_views"])}
        owners = {
            row["name"]: row["consumer"]
            for row in await self._connection.fetch(self._sql["select_name_owners"])
        }
        changes: list[Change] = []
        for definition in definitions:
            _check_single(definition, known.values())
            found = [await self._planned(view, known, owners) for view in definition.views]
            changes += [change for change in found if change is not None]
            changes += removed(definition, known.values())
        return sorted(changes, key=lambda change: change.what != "rename")

    async def _planned(
        self, d: Definition, known: dict[str, Record], owners: dict[str, str]
    ) -> Change | None:
        row = known.get(d.name) or next((known[name] for name in d.formerly if name in known), None)
        ours = {d.consumer, d.name, *d.consumer_formerly, *d.formerly}
        self._check_owner(d, owners, ours)
        if row is None:
            return await self._new(d, known)
        _check_consumer(d, row)
        if row["state"] == "retired":
            return _joins(d)
        renamed = (row["view_name"], row["name"]) != (d.name, d.consumer)
        if renamed and row["state"] != "live":
            return Change(view=d.full_name, what="rename", renamed_from=row["view_name"])
        if row["state"] == "joining":
            return Change(view=d.full_name, what="needs a rebuild", rebuild=(JOINS,))
        if row["state"] == "detached":
            return None
        if row["revision"] != d.revision:
            return _revised(d, row)
        indexes = await missing(self._queries, d, row["generation"])
        if row["shape"] == d.shape and not renamed:
            return (
                Change(view=d.full_name, what="index", indexes=indexes)
                if indexes and row["build"] is None
                else None
            )
        return await self._evolved(d, row, row["view_name"] if renamed else None, indexes)

    async def _new(self, d: Definition, known: dict[str, Record]) -> Change:
        """Return the change that registers a view: with its tables, unless others were fed before it."""
        _check_key_name(d, known)
        await self._check_retired(d)
        beside = [row for row in known.values() if row["name"] in {d.consumer, *d.consumer_formerly}]
        if any(row["effects_mark"] is not None for row in beside):
            return _joins(d)
        return Change(view=d.full_name, what="create", statements=tuple(created(d, self._schema, 1)))

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
            return Change(view=d.full_name, what="needs a rebuild", rebuild=changed.reasons)
        notes = tuple([note async for note in self._stepped_over(d, row["number"])])
        return Change(
            view=d.full_name,
            what="rename" if former else "change",
            statements=tuple(changed),
            notes=notes,
            renamed_from=former,
            indexes=indexes,
        )

    async def _check_retired(self, d: Definition) -> None:
        """Refuse the name of a consumer that was retired: its intent keys would be made once more."""
        names = list({d.name, d.consumer})
        for row in await self._connection.fetch(self._sql["select_retired_names"], names):
            raise ReadModelError(
                f"a consumer named {row['name']!r} was retired by {row['who']} at "
                f"{row['at'].isoformat(timespec='seconds')}",
                remedy='Its name stays reserved, since providers remember its keys: give this one another, name="…"',
            )

    def _check_owner(self, d: Definition, owners: dict[str, str], names: set[str]) -> None:
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


def removed(definition: ConsumerDefinition, rows: Iterable[Record]) -> list[Change]:
    """Return the changes that retire what the consumer feeds and its class lists no more."""
    named = {name for view in definition.views for name in (view.name, *view.formerly)}
    mine = [row for row in rows if row["name"] in {definition.name, *definition.formerly}]
    gone = [row for row in mine if row["state"] != "retired" and row["view_name"] not in named]
    if gone and len(gone) == len(mine):
        raise ReadModelError(
            f"{definition.name!r} lists none of the views of consumer {gone[0]['name']!r}, which it says it was",
            remedy=f"List {gone[0]['view_name']} among its views, or leave formerly= out",
        )
    return [
        Change(
            view=f"{definition.name}.{row['view_name']}", what="retire", notes=(RETIRES,), retires=row["view"]
        )
        for row in gone
    ]


def _check_single(definition: ConsumerDefinition, rows: Iterable[Record]) -> None:
    """Refuse a set that was several consumers: each has its own inbox and positions, and one alone can go on."""
    names = {definition.name, *definition.formerly}
    was = sorted({row["name"] for row in rows if definition.kind is Kind.SET and row["name"] in names})
    if len(was) > 1:
        raise ReadModelError(
            f"{definition.name!r} says that it was {' and '.join(map(repr, was))}, which have applied events apart",
            remedy='Leave one of them in formerly=, and give the views of the others another name="…" and table="…"',
        )


def _check_consumer(d: Definition, row: Record) -> None:
    """Refuse a view that another consumer feeds: its rows are as that one has applied events."""
    if row["name"] not in {d.consumer, *d.consumer_formerly}:
        raise ReadModelError(
            f"the view {d.name!r} is fed by consumer {row['name']!r}, and now listed by {d.consumer!r}",
            remedy='Give the view another name="…" and table="…", which is built anew beside the old one',
        )


def owned_by_another(d: Definition, public: str, owner: str) -> ReadModelError:
    return ReadModelError(
        f"table {public} of {d.name!r} belongs to consumer {owner!r}",
        remedy=f'If the class was renamed, say formerly=("{owner}",): inbox and intent keys hang on it',
    )


def _joins(d: Definition) -> Change:
    """Return what puts a late view of a set on record; refused where it says that its history makes effects."""
    if d.effects == "beginning" and d.intents:
        raise ReadModelError(
            f"{d.full_name} asks for intents of all events, and its set has applied some without it",
            remedy=f'Say effects="now" in {d.consumer}: what the stream holds when it joins makes no effects then',
        )
    return Change(view=d.full_name, what="join", notes=(JOINS,))


def _revised(d: Definition, row: Record) -> Change:
    """Return the rebuild that another revision takes: rows of one generation are no start for another."""
    if d.revision < row["revision"]:
        raise ReadModelError(
            f"{d.name!r} runs revision {row['revision']}, this code is revision {d.revision}",
            remedy="Deploy the newer code, or go back with `projectionist generations rollback`",
        )
    reason = f"its revision is raised from {row['revision']} to {d.revision}: `rebuild` builds it, and so does `run`"
    return Change(view=d.full_name, what="needs a rebuild", rebuild=(reason,))


def _check_key_name(d: Definition, known: dict[str, Record]) -> None:
    """Refuse a name that a consumer bore before it was renamed: both would make the same intent keys."""
    for row in known.values():
        if row["key_name"] == d.name:
            raise ReadModelError(
                f"the intent keys of {row['name']!r} are made of its first name, {d.name!r}",
                remedy='Give this consumer another name, name="…"; '
                f'or, if it is the same one, say formerly=("{row["name"]}",)',
            )

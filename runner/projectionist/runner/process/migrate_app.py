"""What a database lacks for a release and the read models of an app: planned, and applied where asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core.postgres.connections import connect
from projectionist.core.postgres.lock_probe import refuse_weak_locks
from projectionist.core.postgres.rights import grant_recorded
from projectionist.core.server_versions import refuse_old_postgres
from projectionist.migrations import Migration, migrate, optional_indexes, plan
from projectionist.runner.read_models.change_plan import Change
from projectionist.runner.read_models.migrate import ReadModels
from projectionist.runner.read_models.table_statements import created

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition


class PendingChanges(msgspec.Struct):
    """The changes to be made, or that were made."""

    schema: str
    release: list[Migration]
    read_models: list[Change]
    indexes: list[str] = []
    """Statements for what the settings ask for beside."""


async def migrate_app(
    found: Settings, consumers: Sequence[ConsumerDefinition], *, apply: bool
) -> PendingChanges:
    """Plan, and apply if asked to: what `migrate`, `demo` and `dev` do, and `App.running(migrate=True)`."""
    schema = found.postgres.schema
    connection = await connect(found.postgres, application_name="projectionist migrate")
    try:
        refuse_old_postgres(connection.get_server_version().major, str(found.postgres.url))
        if apply:
            await refuse_weak_locks(connection, found.postgres)
        release = await (migrate if apply else plan)(connection, schema)
        if release and not apply:
            fresh = [
                Change(view=d.full_name, what="create", statements=tuple(created(d, schema, 1)))
                for one in consumers
                for d in one.views
            ]
            return PendingChanges(schema, release, fresh if release[0].number == 1 else [])
        models = ReadModels(connection, schema)
        changes = await models.plan(consumers)
        if apply:
            await models.apply(consumers, changes)
            async with connection.transaction():
                await grant_recorded(connection, schema)
        indexes = await optional_indexes.pending(
            connection,
            schema,
            correlation=found.postgres.correlation_index,
            trace=found.postgres.trace_index,
        )
        if apply:
            await optional_indexes.apply(connection, indexes)
        return PendingChanges(schema, release, changes, indexes)
    finally:
        await connection.close()

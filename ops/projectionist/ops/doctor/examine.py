"""Everything the doctor looks at, in the order in which one thing needs another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from projectionist.core import project_servers
from projectionist.core.errors import ProjectionistError
from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.database_identity import recorded
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.settings import FILE
from projectionist.migrations import plan
from projectionist.ops.doctor import broker as broker_checks
from projectionist.ops.doctor import (
    consumers,
    database,
    encryption,
    identities,
    observer,
    operations,
    outbox,
    pooler,
    roles,
    settings_file,
    stream_integrity,
)
from projectionist.ops.doctor.check import Check, Level, attention, well
from projectionist.ops.doctor.questions import questions
from projectionist.outbox.admin import status
from projectionist.runner.batch.lookup_reader import unavailable
from projectionist.runner.consumers.status import setbacks
from projectionist.runner.jetstream.durable_owner import DurableMark
from projectionist.runner.operations.operation_store import OperationStore

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.core.postgres.database_identity import Owner
    from projectionist.core.settings.settings import Settings
    from projectionist.projections import Stream
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.app import App
    from projectionist.runner.jetstream.api import StreamInfo

SILENT_BEATS = 3


class Examined(msgspec.Struct):
    """The findings, and the answers about the consumers that were asked about."""

    checks: list[Check]
    questions: dict[str, list[tuple[str, str]]]

    @property
    def well(self) -> bool:
        """Return whether there is nothing to act on."""
        return all(check.level != Level.ATTENTION for check in self.checks)


class Registered(NamedTuple):
    """What the database knows, by name."""

    consumers: Mapping[str, Row]
    views: Mapping[str, Row]


async def examine(app: App, definitions: Sequence[ConsumerDefinition], settings: Settings) -> Examined:
    """Look at the servers, the streams and these consumers; what does not answer is a finding, not an error."""
    checks: list[Check] = list(encryption.checks(app, settings))
    checks += settings_file.checks(project_servers.find(Path.cwd(), FILE).parent / FILE)
    rows, home = await _database(app, definitions, settings, checks)
    streams = await _broker(definitions, app.streams, settings, checks, rows, home)
    for definition in definitions:
        if rows is not None:
            row, found = rows.consumers.get(definition.name), streams.get(definition.stream)
            checks += consumers.registered(definition, row, rows.views, settings, found)
        checks += consumers.providers(definition, app.providers)
    asked = {one.name: questions(one, settings, streams.get(one.stream)) for one in definitions}
    return Examined(checks, asked)


async def _database(
    app: App, definitions: Sequence[ConsumerDefinition], settings: Settings, checks: list[Check]
) -> tuple[Registered | None, Owner | None]:
    """Return what is registered, and whose the schema is; None where that cannot be read."""
    try:
        connection = await db.connect(settings.postgres, application_name="projectionist doctor")
    except ProjectionistError as error:
        checks.append(attention("postgres", "connection", error.message, error.remedy))
        return None, None
    try:
        checks += await database.look(connection, settings, len(app.definitions))
        checks += await pooler.look(connection, settings.postgres, len(app.definitions))
        checks += await database.locks(settings.postgres, connection)
        pending = [one.name for one in await plan(connection, settings.postgres.schema)]
        if pending:
            checks.append(
                attention("postgres", "migrations", f"{', '.join(pending)} pending", "projectionist migrate")
            )
            return None, None
        checks.append(well("postgres", "migrations", f"schema {settings.postgres.schema} is up to date"))
        home = await recorded(connection, settings.postgres.schema)
        checks += await database.home(connection, settings.postgres.schema, home)
        return await _rows(connection, app, definitions, settings, checks), home
    except ProjectionistError as error:
        checks.append(attention("postgres", "migrations", error.message, error.remedy))
        return None, None
    finally:
        await connection.close()


async def _rows(
    connection: Connection,
    app: App,
    definitions: Sequence[ConsumerDefinition],
    settings: Settings,
    checks: list[Check],
) -> Registered:
    statements = Statements("projectionist.ops", settings.postgres.schema)
    silent_s = SILENT_BEATS * settings.run.heartbeat_s
    codes = [view.code for definition in definitions for view in definition.views]
    found = await connection.fetch(statements["select_consumer_checks"], silent_s)
    checks += consumers.strangers(found, app.definitions, app.providers)
    lacking = await connection.fetch(
        statements["count_unversioned_intents"], consumers.versioned(app.providers)
    )
    checks += map(consumers.unversioned, lacking)
    checks += consumers.silent(found)
    opened = await OperationStore(connection, settings.postgres.schema).each(only_open=True)
    checks += operations.checks(opened)
    checks += outbox.checks(await status.look(connection, settings.postgres.schema), app.providers)
    checks += observer.checks(await observer.look(connection, settings, silent_s), settings.telemetry)
    checks += map(consumers.refused, await connection.fetch(statements["doctor_refused"]))
    checks += map(consumers.setback, await setbacks(connection, settings.postgres.schema))
    for one in [view for definition in definitions for view in definition.views]:
        checks += consumers.lookups(one, await unavailable(connection, one))
    checks += await roles.look(connection, settings.postgres.schema, [row["number"] for row in found])
    views = await connection.fetch(statements["select_view_checks"], codes)
    return Registered({row["name"]: row for row in found}, {row["name"]: row for row in views})


async def _broker(
    definitions: Sequence[ConsumerDefinition],
    declared: Sequence[Stream],
    settings: Settings,
    checks: list[Check],
    rows: Registered | None,
    home: Owner | None,
) -> dict[str, StreamInfo]:
    try:
        client = await connections.connect(settings.nats, name="projectionist doctor", within_s=3)
    except ProjectionistError as error:
        checks.append(attention("nats", "connection", error.message, error.remedy))
        return {}
    try:
        checks += await broker_checks.server(client, settings.nats)
        rights, here = await stream_integrity.publish_rights(client), stream_integrity.local(client)
        streams = {}
        known = {stream.name: stream for stream in declared}
        for name in sorted({definition.stream for definition in definitions} | known.keys()):
            stream, found = await broker_checks.stream(client, name, known.get(name))
            checks += found
            if stream is not None:
                streams[name] = stream
                checks.append(stream_integrity.check(name, stream.config, rights, here=here))
        for definition in definitions:
            if definition.stream in streams:
                stream = streams[definition.stream]
                checks += await _of(client, definition, stream, settings, rows, home)
        return streams
    finally:
        await client.close()


async def _of(
    client: Client,
    definition: ConsumerDefinition,
    stream: StreamInfo,
    settings: Settings,
    rows: Registered | None,
    home: Owner | None,
) -> list[Check]:
    checks: list[Check] = []
    if rows is not None and definition.name in rows.consumers:
        row = rows.consumers[definition.name]
        durable_mark = None if home is None else DurableMark(home, row["number"], definition.name)
        checks += await broker_checks.held(client, definition, row, settings, stream, durable_mark)
    return checks + await identities.look(client, definition, settings, stream)

"""Recompute: one live row folded anew and written, online and silently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.operator import Act
from projectionist.core.testpoints import announce
from projectionist.projections.errors import BadValue
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.lost_events import HistoryGone, holes_of
from projectionist.runner.verify.refold_rows import table_of
from projectionist.runner.verify.verify import RowDrift, begun, drift, live_consumer

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.tables.table_key import TableKey
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.verify.refold_rows import ExactFold, Refolded


class Recomputed(msgspec.Struct):
    """The outcome for a row."""

    consumer: str
    key: str
    events: int
    changed: RowDrift | None
    """What was different; None where the row was right."""


async def recompute(
    queries: Queries, definition: Definition, settings: Settings, client: Client, key: str, act: Act
) -> Recomputed:
    """Fold the row `key` from the events that live has applied to it, and write it where it differs.

    The stream is read and folded before. Under the exclusive barrier, where nothing moves, its end is read on only
    where live has gone on meanwhile, and not for long: BarrierTimeout, and nothing is changed. For a row that several
    aggregates share, all of the stream is read. Raises HistoryGone where it no longer holds all that made the row.
    """
    consumer, _ = await live_consumer(queries, definition, settings)
    _, columns = table_of(consumer)
    async with rewriting(queries, consumer, client, [parsed(columns, key)]) as (one,):
        changed = drift(definition, one) if one.differs else None
        written = sorted((changed.live or changed.folded or {}) if changed else {})
        detail = msgspec.json.encode({"columns": written, "since": changed and changed.since}).decode()
        await queries.run(
            "insert_audit_entry", consumer.number, "recompute", key, act.actor, act.reason, detail
        )
        announce("recompute.written")
    return Recomputed(definition.name, key, one.events, changed)


@asynccontextmanager
async def rewriting(
    queries: Queries, consumer: Consumer, client: Client, keys: Sequence[Any]
) -> AsyncIterator[list[Refolded]]:
    """Fold these rows and write those that differ, in a transaction that is committed with the block."""
    exact, before = await _folded(queries, client, consumer, keys)
    await _check_whole(queries, client, consumer, keys)
    async with queries.alone(consumer.number, "recompute"):
        await _check_code(queries, consumer)
        announce("recompute.entered")
        found = await _ended(queries, consumer, exact, before)
        statements = ReadModel(table_of(consumer)[0], queries.schema, consumer.view.generation)
        for one in found:
            if one.differs:
                await _write(queries, statements, one)
        yield found


async def _check_whole(queries: Queries, client: Client, consumer: Consumer, keys: Sequence[Any]) -> None:
    holes, definition = await holes_of(queries, client, consumer, keys), consumer.view.definition
    for key in keys:
        lost = holes.at(key)
        if lost is not None:
            raise HistoryGone(
                f"what the row {key} of {definition.name} should be cannot be decided: {definition.stream} no longer "
                f"holds {lost}, which live has applied",
                remedy="Restore the stream; nothing was changed",
            )


async def _check_code(queries: Queries, consumer: Consumer) -> None:
    definition, control = consumer.view.definition, await queries.control(consumer.view.number)
    if (control["code"], control["generation"]) != (definition.code, consumer.view.generation):
        raise RebuildError(
            f"{definition.name} is run by other code than this", remedy="Recompute with the code that runs"
        )


async def _ended(queries: Queries, consumer: Consumer, exact: ExactFold, before: int) -> list[Refolded]:
    """Return the rows, folded to where live stands now, where nothing moves; `before`: how much was settled then."""
    if exact.outdated(await queries.rows("select_decisions", consumer.number)):
        raise RebuildError("an operator has decided about an event meanwhile", remedy="Try again")
    if await queries.value("sum_settled", consumer.number) != before:
        await exact.read()
    found = await exact.end()
    if not exact.is_whole:
        raise RebuildError("events came in another order than their versions meanwhile", remedy="Try again")
    return found


async def _write(queries: Queries, statements: ReadModel, one: Refolded) -> None:
    if one.folded is None:
        await queries.connection.execute(statements.delete, *statements.key.arrays([one.key]))
    else:
        await queries.connection.execute(statements.upsert, *statements.arguments([one.folded]))


async def _folded(
    queries: Queries, client: Client, consumer: Consumer, keys: Sequence[Any]
) -> tuple[ExactFold, int]:
    """Return the rows, folded as far as the stream goes now; and how much had been settled before that."""
    exact: ExactFold | None = None
    while exact is None or not exact.is_whole:
        decided = await queries.rows("select_decisions", consumer.number)
        exact = await begun(queries, consumer, client, keys, decided, exact)
        before: int = await queries.value("sum_settled", consumer.number)
        await exact.read()
    return exact, before


def parsed(key: TableKey, text: str) -> Any:
    """Return the key a person wrote, in database form. Raises RebuildError where it cannot be one."""
    try:
        return key.parsed(text)
    except BadValue as bad:
        raise RebuildError(f"{text!r} is no key of these rows: {bad}", remedy="Name the row's key") from bad

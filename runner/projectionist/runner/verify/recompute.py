"""Recompute: one live row folded anew and written, online and silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.operator import Act
from projectionist.core.testpoints import announce
from projectionist.projections.tables.row_statements import ReadModel, arguments
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.lost_events import HistoryGone, holes_of
from projectionist.runner.verify.verify import RowDrift, begun, drift, live_consumer

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.tables.columns import Column
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
    table = definition.table
    if table is None or table.key is None:
        raise RebuildError(
            f"{definition.name} writes its rows by SQL of its own: no single row can be folded",
            remedy="Rebuild it",
        )
    value = parsed(table.key, key)
    exact, before = await _folded(queries, client, consumer, value)
    await _check_whole(queries, client, consumer, value, key)
    async with queries.alone(consumer.number, "recompute"):
        await _check_code(queries, consumer)
        announce("recompute.entered")
        one = await _ended(queries, consumer, exact, before)
        if one.differs:
            await _write(queries, ReadModel(table, queries.schema, consumer.generation), value, one)
        changed = drift(definition, one) if one.differs else None
        columns = sorted((changed.live or changed.folded or {}) if changed else {})
        detail = msgspec.json.encode({"columns": columns, "since": changed and changed.since}).decode()
        await queries.run(
            "insert_audit_entry", consumer.number, "recompute", key, act.actor, act.reason, detail
        )
        announce("recompute.written")
    return Recomputed(definition.name, key, one.events, changed)


async def _check_whole(queries: Queries, client: Client, consumer: Consumer, value: Any, key: str) -> None:
    lost = (await holes_of(queries, client, consumer, [value])).at(value)
    if lost is not None:
        definition = consumer.definition
        raise HistoryGone(
            f"what the row {key} of {definition.name} should be cannot be decided: {definition.stream} no longer holds "
            f"{lost}, which live has applied",
            remedy="Restore the stream; nothing was changed",
        )


async def _check_code(queries: Queries, consumer: Consumer) -> None:
    definition, control = consumer.definition, await queries.control(consumer.number)
    if (control["code"], control["generation"]) != (definition.code, consumer.generation):
        raise RebuildError(
            f"{definition.name} is run by other code than this", remedy="Recompute with the code that runs"
        )


async def _ended(queries: Queries, consumer: Consumer, exact: ExactFold, before: int) -> Refolded:
    """Return the row, folded to where live stands now, where nothing moves; `before`: how much was settled then."""
    if exact.outdated(await queries.rows("select_decisions", consumer.number)):
        raise RebuildError("an operator has decided about an event meanwhile", remedy="Try again")
    if await queries.value("sum_settled", consumer.number) != before:
        await exact.read()
    (one,) = await exact.end()
    if not exact.in_order:
        raise RebuildError("events came in another order than their versions meanwhile", remedy="Try again")
    return one


async def _write(queries: Queries, statements: ReadModel, key: Any, one: Refolded) -> None:
    if one.folded is None:
        await queries.connection.execute(statements.delete, [key])
    else:
        await queries.connection.execute(statements.upsert, *arguments([one.folded]))


async def _folded(queries: Queries, client: Client, consumer: Consumer, key: Any) -> tuple[ExactFold, int]:
    """Return the row, folded as far as the stream goes now; and how much had been settled before that."""
    exact: ExactFold | None = None
    while exact is None or not exact.in_order:
        decided = await queries.rows("select_decisions", consumer.number)
        exact = await begun(queries, consumer, client, [key], decided, exact)
        before: int = await queries.value("sum_settled", consumer.number)
        await exact.read()
    return exact, before


def parsed(column: Column, text: str) -> Any:
    """Return the key a person wrote, in database form. Raises RebuildError where it cannot be one."""
    try:
        return column.canonical(msgspec.convert(text, column.kind, strict=False))
    except (msgspec.ValidationError, ValueError) as error:
        raise RebuildError(
            f"{text!r} is no {column.kind.__name__}, which the key {column.name} is",
            remedy="Name the row's key",
        ) from error

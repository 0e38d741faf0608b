"""Recompute: one live row folded anew and written, online and silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.signals import announce
from projectionist.projections.readmodel import ReadModel, arguments
from projectionist.runner.rebuild.desk import Desk, RebuildError
from projectionist.runner.rebuild.exact import Candidates, refold
from projectionist.runner.rebuild.history import HistoryGone, holes_of
from projectionist.runner.rebuild.verify import Drift, drift, live_consumer
from projectionist.runner.verbs import Act

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings import Settings
    from projectionist.projections.columns import Column
    from projectionist.projections.definition import Definition


class Recomputed(msgspec.Struct):
    """What became of a row."""

    consumer: str
    key: str
    events: int
    changed: Drift | None
    """What was different; None where the row was right."""


async def recompute(
    desk: Desk, definition: Definition, settings: Settings, client: Client, key: str, act: Act
) -> Recomputed:
    """Fold the row `key` from the events that live has applied to it, and write it where it differs.

    The stream is read before. Under the exclusive barrier, where nothing moves, its end is read on only where live
    has gone on meanwhile, and not for long: TooLong, and nothing is changed. For a row that several aggregates share,
    all of the stream is read.
    """
    consumer, _ = await live_consumer(desk, definition, settings)
    table = definition.table
    if table is None or table.key is None:
        raise RebuildError(
            f"{definition.name} writes its rows by SQL of its own: no single row can be folded",
            remedy="Rebuild it",
        )
    value = parsed(table.key, key)
    candidates = Candidates(client, consumer, [value], await desk.rows("build_decisions", consumer.number))
    before = await desk.value("settled_so_far", consumer.number)
    await candidates.read()
    lost = (await holes_of(desk, client, consumer, [value])).at(value)
    if lost is not None:
        raise HistoryGone(
            f"what the row {key} of {definition.name} should be cannot be told: {definition.stream} no longer holds "
            f"{lost}, which live has applied",
            remedy="Restore the stream; nothing was changed",
        )
    async with desk.alone(consumer.number, "recompute"):
        control = await desk.row("build_control", consumer.number)
        assert control is not None, "it is registered"
        if (control["code"], control["generation"]) != (definition.code, consumer.generation):
            raise RebuildError(
                f"{definition.name} is run by other code than this",
                remedy="Recompute with the code that runs",
            )
        announce("recompute.entered")
        if candidates.outdated(await desk.rows("build_decisions", consumer.number)):
            raise RebuildError("an operator has decided about an event meanwhile", remedy="Try again")
        if await desk.value("settled_so_far", consumer.number) != before:
            await candidates.read()
        (one,) = await refold(desk, consumer, candidates)
        if one.differs:
            statements = ReadModel(table, desk.schema, consumer.generation)
            if one.folded is None:
                await desk.connection.execute(statements.delete, [value])
            else:
                await desk.connection.execute(statements.upsert, *arguments([one.folded]))
        changed = drift(definition, one) if one.differs else None
        columns = sorted((changed.live or changed.folded or {}) if changed else {})
        detail = msgspec.json.encode({"columns": columns, "since": changed and changed.since}).decode()
        await desk.run("audit", consumer.number, "recompute", key, act.actor, act.reason, detail)
        announce("recompute.written")
    return Recomputed(definition.name, key, one.events, changed)


def parsed(column: Column, text: str) -> Any:
    """The key a person wrote, in database form. Raises RebuildError where it cannot be one."""
    try:
        return column.canonical(msgspec.convert(text, column.kind, strict=False))
    except (msgspec.ValidationError, ValueError) as error:
        raise RebuildError(
            f"{text!r} is no {column.kind.__name__}, which the key {column.name} is",
            remedy="Name the row's key",
        ) from error

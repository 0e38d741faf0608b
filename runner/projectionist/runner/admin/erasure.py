"""Erase: the content of an aggregate or an event goes everywhere it is kept; identity, hashes and versions stay.

A consumer is done in transactions of bounded size. The first one decides, which rebuild and verify repeat, and takes
what waits and the row along; the others empty what was settled. Who is interrupted erases again: what is done is not
done twice. What is not settled at a provider is not touched, and the erase is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.operator import NotThere
from projectionist.core.postgres.statements import Statements
from projectionist.core.printable_text import join_first
from projectionist.core.states import AggregateState, InboxState
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.admin.erased_archive import ErasedArchive
from projectionist.runner.admin.erased_messages import ErasedMessages
from projectionist.runner.admin.erased_rows import ErasedRows, RowsPlan, synthetic
from projectionist.runner.admin.erasing_consumer import ErasingConsumer
from projectionist.runner.admin.erasure_report import (
    CannotErase,
    ErasedConsumer,
    EraseTarget,
    Erasure,
)
from projectionist.runner.admin.parked_actions import BY_HAND, FAILED_HEADS
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.batch.planning import UNORDERED
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.read_models.generations import drop

if TYPE_CHECKING:
    from pathlib import Path

    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.history.progress import Progress

STEP = 1_000
"""So many events are emptied in one transaction."""
TRIES = 5
"""So often rows are looked for where more events of the target come meanwhile."""
PRODUCERS = 0
"""In place of a consumer: intents that a producer has added in a transaction of its own."""


async def target_of(
    connection: Connection, schema: str, *, aggregate: str | None, event: str | None, source: str | None
) -> EraseTarget:
    """Return what these name; raises NotThere for an event that is not known, or known under several sources."""
    if aggregate is not None:
        return EraseTarget(aggregate=aggregate)
    sql = Statements("projectionist.runner", schema)
    known = [row["source"] for row in await connection.fetch(sql["select_event_sources"], event)]
    if source is None and len(known) > 1:
        raise NotThere(
            f"event {event!r} is known under several sources", remedy=f"Say --source: {', '.join(known)}"
        )
    if not known or source not in (None, *known):
        raise NotThere(
            f"nothing is known of event {event!r}",
            remedy="Name its aggregate, or look for it with `projectionist journey`",
        )
    return EraseTarget(source=source or known[0], id=event)


class _WentOn(Exception):
    """More of the target was applied while its rows were looked for."""


class Eraser:
    """Erases with one connection in no transaction; rows follow for the consumers of an app."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        settings: Settings,
        definitions: Sequence[Definition],
        progress: Progress,
        folder: Path | None = None,
    ) -> None:
        """Take the app's consumers, and where files of the archive are, if there are any."""
        self._connection, self._settings, self._progress = connection, settings, progress
        schema = settings.postgres.schema
        self._queries = Queries(connection, schema)
        self._outbox = Statements("projectionist.outbox", schema)
        self._rows = ErasedRows(self._queries, client, settings, definitions, progress)
        self._messages = ErasedMessages(self._queries, client, settings, definitions, progress)
        self._archive = ErasedArchive(self._queries, settings.retention, folder, progress)

    async def plan(self, target: EraseTarget) -> Erasure:
        """Return what an erase would touch; raises CannotErase where it would be refused."""
        return (await self._looked(target))[0]

    async def erase(self, target: EraseTarget, act: Act, *, messages: bool = False) -> Erasure:
        """Erase it; with `messages` in the streams as well. Raises CannotErase, with what to do first."""
        found, work = await self._looked(target)
        announce("erase.planned")
        for one in work:
            found.undone += await self._consumer(one, target, act)
        self._progress.begin("emptying what producers added", found.recorded)
        await self._emptied(PRODUCERS, "select_recorded_identities", target)
        await self._archive.empty(target, found.archived)
        found.files = await self._archive.empty_files(target)
        if messages:
            await self._delete_messages(target, found)
        announce("erase.done")
        return found

    async def _delete_messages(self, target: EraseTarget, found: Erasure) -> None:
        """Delete what the streams hold by now: what waited for its turn needs its message no more."""
        consumers = await self._consumers()
        found.streams = await self._messages.find(target, [one.row for one in consumers])
        for places in found.streams:
            await self._messages.delete(places)

    # -- look ----------------------------------------------------------------------------------------------------

    async def _consumers(self) -> list[ErasingConsumer]:
        found: dict[int, ErasingConsumer] = {}
        for row in await self._queries.rows("select_erasing_consumers"):
            found.setdefault(row["number"], ErasingConsumer(row, [])).views.append(row)
        return list(found.values())

    async def _looked(self, target: EraseTarget) -> tuple[Erasure, list[ErasingConsumer]]:
        self._progress.begin("looking for it", 0)
        await unpack_all(self._connection, self._outbox)
        consumers = await self._consumers()
        await self._check_intents(target)
        found, work = Erasure(target=str(target), consumers=[]), list[ErasingConsumer]()
        for consumer in consumers:
            one = consumer.row
            if target.aggregate is not None and await self._has_forgotten(consumer):
                found.undone.append(
                    f"rows of {one['name']}: retention has removed which events made them, look for older rows yourself"
                )
            touched = dict(await self._row("select_erasable", one["number"], *target.arguments))
            places, upto = await self._places(one, target), await self._upto(one, target)
            if not (any(touched.values()) or upto or places or await self._is_known(one, target)):
                continue
            self._check(one)
            consumer.settled = touched["inbox"]
            await self._plan_rows(consumer, target)
            work.append(consumer)
            told = {table: count for table, count in touched.items() if count}
            found.consumers.append(ErasedConsumer(one["name"], told, consumer.told, consumer.kept))
        found.recorded = await self._queries.value("count_recorded_identities", *target.arguments)
        found.archived, found.files = await self._archive.count(target)
        found.streams = await self._messages.find(target, [one.row for one in consumers])
        sent = await self._queries.rows("count_sent_by_provider", *target.arguments)
        found.providers = {row["provider"]: row["sent"] for row in sent}
        if not (found.consumers or found.recorded or found.archived or found.files or found.streams):
            raise NotThere(
                f"nothing is known of {target}", remedy="`projectionist journey` looks for an event"
            )
        if self._archive.is_elsewhere:
            found.undone.append(
                "files of the archive are not here: erase again where they are, with --archive FOLDER"
            )
        return found, work

    async def _plan_rows(self, one: ErasingConsumer, target: EraseTarget) -> None:
        """Work out what becomes of the rows of each view, if nothing of the target is applied meanwhile."""
        upto, places = one.basis = await self._basis(one.row, target)
        decided = synthetic(target, places, upto)
        one.plans = [await self._rows.plan(view, target, decided) for view in one.views]

    async def _basis(
        self, one: Record, target: EraseTarget
    ) -> tuple[int | None, list[tuple[str, str, str | None, int | None]]]:
        return await self._upto(one, target), sorted(await self._places(one, target))

    async def _row(self, statement: str, *given: object) -> Record:
        row = await self._queries.row(statement, *given)
        assert row is not None, "it counts"
        return row

    async def _upto(self, one: Record, target: EraseTarget) -> int | None:
        """Return up to which version an aggregate was applied; None without order."""
        if target.aggregate is None or one["sequence"] == UNORDERED:
            return None
        found = await self._queries.rows("select_positions", one["number"], [target.aggregate])
        return found[0]["version"] if found else 0

    async def _has_forgotten(self, one: ErasingConsumer) -> bool:
        """Return whether rows may have been made by events that neither the inbox nor a version tells of any more."""
        if one.row["sequence"] != UNORDERED or all(view["kind"] == Kind.REACTOR for view in one.views):
            return False
        return bool(await self._queries.value("select_purged_up_to", one.row["number"]))

    async def _is_known(self, one: Record, target: EraseTarget) -> bool:
        """Return whether anything stands there of an event, also without content."""
        if target.aggregate is not None:
            return False
        return bool(await self._queries.rows("select_event_places", one["number"], target.source, target.id))

    async def _places(
        self, one: Record, target: EraseTarget
    ) -> list[tuple[str, str, str | None, int | None]]:
        """Return the events that are decided about one by one: source, id, aggregate, version."""
        ordered = one["sequence"] != UNORDERED
        if target.aggregate is None:
            rows = await self._queries.rows("select_event_places", one["number"], target.source, target.id)
            applied = [row for row in rows if row["applied"]]
            return [
                (target.source or "", target.id or "", row["aggregate"], row["version"] if ordered else None)
                for row in applied
            ]
        if ordered:
            return []
        found = await self._queries.rows("select_applied_identities", one["number"], *target.arguments)
        return [(row["source"], row["id"], target.aggregate, None) for row in found]

    def _check(self, one: Record) -> None:
        name = one["name"]
        if self._settings.retention.legal_hold or self._settings.policy(name).legal_hold:
            raise CannotErase(f"{name} is under legal hold", remedy="Lift legal_hold in the settings first")
        if one["build"] is not None:
            raise CannotErase(
                f"a build of {name} is open, whose rows would keep it",
                remedy="Finish it, or `projectionist rebuild --abort`; then erase (again)",
            )

    async def _check_intents(self, target: EraseTarget) -> None:
        rows = await self._queries.rows("select_unsettled_intents", *target.arguments)
        if not rows:
            return
        states = Counter(row["state"] for row in rows)
        named = join_first([f"{row['key']} ({row['state']})" for row in rows], 5)
        raise CannotErase(
            f"{sum(states.values()):,} intents are not settled: {named}",
            remedy="Have a relay send them, or decide with `projectionist outbox`: discard what was not sent, "
            "resolve-sent or resolve-not-sent what is unknown. Then erase (again): nothing is done twice",
        )

    # -- database ------------------------------------------------------------------------------------------------

    async def _consumer(self, one: ErasingConsumer, target: EraseTarget, act: Act) -> list[str]:
        """Erase one consumer's; return what is left to do about its rows, by view."""
        upto = await self._decided(one, target, act)
        announce("erase.decided")
        self._progress.begin(f"emptying {one.row['name']}", one.settled)
        await self._emptied(one.row["number"], "select_erased_identities", target, upto)
        undone = []
        for view, rows in zip(one.views, one.plans, strict=True):
            if left := await self._rewritten(view, rows):
                undone.append(f"rows of {view['view_name']}: {'; '.join(left)}")
        return undone

    async def _rewritten(self, view: Record, rows: RowsPlan) -> list[str]:
        """Fold anew what others share of a view's rows, and drop its kept generations; return what is left to do."""
        left = [why for why in (await self._rows.rewrite(rows),) if why]
        for generation in view["kept"]:
            try:
                await drop(self._queries, view["view"], generation)
            except RebuildError as error:
                left.append(f"{error}, and holds the rows as they were")
        return left

    async def _decided(self, one: ErasingConsumer, target: EraseTarget, act: Act) -> int | None:
        """Record it for the rows as planned, or as planned anew where more of the target was applied meanwhile."""
        for _ in range(TRIES):
            try:
                return await self._decide(one, target, act)
            except _WentOn:
                await self._plan_rows(one, target)
        raise CannotErase(
            f"{one.row['name']} applies more of it faster than the stream is read",
            remedy="Erase again, or pause the consumer while you do",
        )

    async def _decide(self, consumer: ErasingConsumer, target: EraseTarget, act: Act) -> int | None:
        """Record it, and take what waits and the rows along; return up to which version it is about."""
        one = consumer.row
        store = store_of(self._connection, self._queries.schema, one["number"])
        ordered = one["sequence"] != UNORDERED
        async with self._connection.transaction():
            await store.enter()
            self._check(await self._again(consumer))
            aggregates = await self._aggregates(one, target) if ordered else []
            positions = await store.positions(aggregates)
            upto, places = await self._basis(one, target)
            if consumer.basis != (upto, places) and any(rows.is_read for rows in consumer.plans):
                raise _WentOn
            if target.aggregate is not None and upto:
                await store.run("insert_erase_decision", target.aggregate, upto, act.actor, act.reason)
            parked = await self._waiting(store, target, positions, act)
            for source, name, aggregate, version in places:
                if ordered and target.aggregate is None:
                    given = (aggregate, version, source, name, None, act.actor, act.reason)
                    await store.run("insert_version_erase_decision", *given)
            await store.rows("erase_quarantined", *target.arguments, act.actor, act.reason)
            await store.run("erase_words", *target.arguments)
            for rows in consumer.plans:
                await self._rows.delete_own(rows)
            detail = msgspec.json.encode({"upto": upto, "parked": parked}).decode()
            await store.run("insert_audit_entry", "erase", str(target), act.actor, act.reason, detail)
            if not ordered:
                await self._decide_each(store, target, act)
            announce("erase.deciding")
        return upto

    async def _decide_each(self, store: InboxStore, target: EraseTarget, act: Act) -> None:
        """Record it of each event: without order no version stands for them."""
        found = await store.rows("select_applied_identities", *target.arguments)
        names = [row["source"] for row in found], [row["id"] for row in found]
        await store.run("insert_event_erase_decisions", *names, False, act.actor, act.reason)

    async def _again(self, one: ErasingConsumer) -> Any:
        """Return the consumer as it is now, under the barrier."""
        for found in await self._consumers():
            if found.row["number"] == one.row["number"]:
                if found.stand != one.stand:
                    raise CannotErase(f"{found.row['name']} was rebuilt at this moment", remedy="Erase again")
                return found.row
        raise CannotErase(f"{one.row['name']} was retired at this moment", remedy="Erase again")

    async def _aggregates(self, one: Record, target: EraseTarget) -> list[str]:
        if target.aggregate is not None:
            return [target.aggregate]
        rows = await self._queries.rows("select_event_places", one["number"], target.source, target.id)
        return sorted({row["aggregate"] for row in rows if row["aggregate"] is not None})

    async def _waiting(
        self, store: InboxStore, target: EraseTarget, positions: Sequence[Record], act: Act
    ) -> int:
        """Empty what is parked; a head that failed is stepped over at once. How many those are."""
        parked = await store.rows("select_parked_identities", *target.arguments)
        if not parked:
            return 0
        erased = {(row["source"], row["id"]) for row in parked}
        names = [row["source"] for row in parked], [row["id"] for row in parked]
        ordered = any(row["ordered"] for row in parked)
        await store.run("insert_event_erase_decisions", *names, ordered, act.actor, act.reason)
        for row in positions:
            first = await store.row("select_head_event", row["aggregate"])
            failed = row["head"] in FAILED_HEADS and row["finding"] is None
            if failed and first is not None and (first["source"], first["id"]) in erased:
                given = (row["aggregate"], row["version"], AggregateState.FAILED, row["parked"], True)
                await store.run("set_position", *given)
        await store.run("erase_parked", *names)
        gone = Counter((row["type"], str(InboxState.DISCARDED)) for row in parked if not row["ordered"])
        if gone:
            await store.count(BY_HAND, gone)
        await store.rows("close_settled_incidents")
        return len(parked)

    async def _emptied(
        self, consumer: int, statement: str, target: EraseTarget, upto: int | None = None
    ) -> None:
        """Empty what was settled, and its intents, step by step until nothing is left."""
        bound: tuple[Any, ...] = (*target.arguments, STEP)
        if consumer != PRODUCERS:
            bound = (consumer, *target.arguments, upto, STEP)
        while True:
            async with self._connection.transaction():
                if consumer != PRODUCERS:
                    await store_of(self._connection, self._queries.schema, consumer).enter()
                rows = await self._queries.rows(statement, *bound)
                names = [row["source"] for row in rows], [row["id"] for row in rows]
                if rows:
                    await unpack_all(self._connection, self._outbox)
                if await self._queries.value("count_unsettled_intents", consumer, *names):
                    await self._check_intents(target)
                await self._queries.value("erase_intents", consumer, *names)
                if consumer != PRODUCERS:
                    await self._queries.run("erase_inbox", consumer, *names)
                announce("erase.emptying")
            await self._progress.advance(len(rows))
            announce("erase.emptied")
            if len(rows) < STEP:
                return

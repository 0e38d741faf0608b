"""The purge: walks our tables page by page and removes, in small transactions, what may go.

Pages, not an index on time: such an index would cost every batch, for the sake of what happens once an hour. A step
holds the barriers of its consumers, so that none of them is rebuilt meanwhile, and rests longer than it works.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.history.progress import PhaseProgress
from projectionist.runner.retention.archive_files import Archive
from projectionist.runner.retention.rules import Held, Rule, decide, under_hold

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.jetstream.api import StreamConfig

    Lend = Callable[[], AbstractAsyncContextManager[Connection]]
    Streams = Callable[[str], Awaitable[StreamConfig | None]]

PAGES = 64
"""How many pages a step looks at: half a megabyte, a thousand rows or two."""
CANCELS = 20_000
"""How many cancels a step removes."""
OPERATIONS, ITEMS = 1_000, 100_000
"""How many operations a step removes, and with how many items: a single one may have had a million."""
ACTS = 2_000
"""How many acts of operators a step looks at."""
PURGES = "projectionist.purges"
"""The setting by which a transaction says what it purges: the audit trail refuses every other delete."""
CORRECTIONS_HELD = (
    "their payload is removed by the owner of the tables alone: `projectionist purge` as the owner"
)
ACTS_HELD = "its acts are removed by who owns it alone: `projectionist purge` as the owner"
REST = 9
"""A step is followed by a rest so many times as long: a purge takes a tenth of one connection at most."""
GONE_S = 7 * 86_400.0
"""Processes that ended so long ago are forgotten, and their counters added up."""
HOURS_S = 31 * 86_400.0
"""Hours of a month that ended so long ago are counted together."""
PRODUCERS = 0
"""In place of a consumer: intents that a producer has added in a transaction of its own."""
KINDS = ("intents", "inbox", "duplicates", "quarantine", "decisions", "audit", "archive")
"""In this order: an inbox row waits until its intents are gone. Of quarantine and decisions the content alone goes."""


class PurgedRows(msgspec.Struct, frozen=True):
    """So many rows of one table went, or would."""

    table: str
    consumer: str
    rows: int


class PurgeReport(msgspec.Struct):
    """The result of a purge."""

    went: list[PurgedRows]
    held: list[Held]
    files: int = 0
    """Files of the archive that went."""


class Purger:
    """Purges for the consumers of one app."""

    def __init__(
        self,
        lend: Lend,
        settings: Settings,
        names: Sequence[str],
        streams: Streams,
        progress: Progress | None = None,
        *,
        rest: float = REST,
    ) -> None:
        """Take what a purge needs: `lend` gives a connection for one step, `streams` what a stream's configuration is,
        if it can be had. `progress` is told how many pages of each table it has looked at, and of the audit acts."""
        schema = settings.postgres.schema
        self._lend = lend
        self._settings = settings
        self._schema = schema
        self._names = sorted(names)
        self._streams = streams
        self._rest = rest
        self._progress = progress or PhaseProgress()
        self._sql = Statements("projectionist.runner", schema)
        self._lock_key = advisory_key(schema, "purge")
        folder = settings.retention.archive_folder
        self._archive = Archive(Path(folder)) if settings.retention.archive == "files" and folder else None
        self._configs: dict[str, StreamConfig | None] = {}
        self._by_number: dict[int, str] = {}
        self._held: dict[str, Held] = {}
        self._began = datetime.max.replace(tzinfo=UTC)

    async def run(self, *, dry_run: bool = False) -> PurgeReport:
        """Walk over all tables once."""
        self._configs, self._held = {}, {}
        async with self._lend() as connection:
            # An inbox row waits for its intents, which therefore have to be seen: what is staged later is younger.
            self._began = await connection.fetchval(self._sql["select_purge_horizon"], datetime.now(UTC))
            await unpack_all(connection, Statements("projectionist.outbox", self._schema))
            facts = await connection.fetch(
                self._sql["select_retention_facts"], self._names, datetime.now(UTC)
            )
        self._by_number = {row["number"]: row["name"] for row in facts}
        for row in facts:
            self._configs[row["stream"]] = await self._streams(row["stream"])
            self._decided(row)
        went: Counter[tuple[str, str]] = Counter()
        for table in KINDS:
            await self._walk(table, dry_run, went)
        self._progress.begin("processes, operations and files", 0)
        files = await self._tidy(dry_run)
        announce("purge.done")
        found = [PurgedRows(table, consumer, rows) for (table, consumer), rows in sorted(went.items())]
        return PurgeReport(found, list(self._held.values()), files)

    async def _walk(self, table: str, dry_run: bool, went: Counter[tuple[str, str]]) -> None:
        if self._is_kept(table):
            return
        if table == "audit":
            await self._walk_acts(dry_run, went)
            return
        async with self._lend() as connection:
            may = table != "decisions" or await connection.fetchval(self._sql["may_empty_decisions"])
            if not may and not dry_run:
                self._held["decisions"] = Held("corrections", CORRECTIONS_HELD)
                return
            pages = await connection.fetchval(self._sql["count_table_pages"], self._schema, table) or 0
        self._progress.begin(f"{table}, by pages", pages)
        for first in range(0, pages, PAGES):
            await self._paced(table, ((first, 0), (first + PAGES, 0)), dry_run, went)
            await self._progress.advance(min(PAGES, pages - first))

    async def _walk_acts(self, dry_run: bool, went: Counter[tuple[str, str]]) -> None:
        """Walk over the audit trail from its beginning: what is left has to be a chain that begins where this ends."""
        async with self._lend() as connection:
            may = await connection.fetchval(self._sql["may_delete_acts"])
        if not may and not dry_run:
            self._held["audit"] = Held("the audit trail", ACTS_HELD)
            return
        self._progress.begin("audit, by acts", 0)
        place = 0
        while rows := await self._paced("audit", (place, ACTS), dry_run, went):
            place = rows[0]["place"]
            await self._progress.advance(sum(row["rows"] for row in rows))

    async def _paced(
        self, table: str, part: tuple[object, object], dry_run: bool, went: Counter[tuple[str, str]]
    ) -> list[Record]:
        """Take one step, and rest after it."""
        began = time.monotonic()
        rows = await self._step(table, part, dry_run)
        for row in rows:
            went[table, self._by_number.get(row["consumer"], "")] += row["rows"]
        announce("purge.stepped")
        await anyio.sleep((time.monotonic() - began) * self._rest)
        return rows

    def _is_kept(self, table: str) -> bool:
        """Return whether nothing of this table goes, of any consumer."""
        found = self._settings.retention
        kept = {
            "intents": found.intent_retention_s,
            "quarantine": found.quarantine_payload_retention_s,
            "decisions": found.decision_payload_retention_s,
            "audit": found.audit_retention_s,
            "operations": found.operation_retention_s,
            "archive": found.archive_retention_s,
        }
        return found.legal_hold or kept.get(table) == "forever"

    async def _step(self, table: str, part: tuple[object, object], dry_run: bool) -> list[Record]:
        """Remove rows in one transaction: what is archived in a file is on disk before its rows are gone."""
        mode = self._settings.retention.archive
        async with self._lend() as connection, connection.transaction():
            await connection.execute(self._sql["lock_purge_step"], self._lock_key)
            barriers = [barrier_key(self._schema, number) for number in self._by_number]
            await connection.execute(self._sql["lock_consumers_shared"], barriers)
            rest = await self._limits(connection, table)
            if rest is None:
                return []
            if table == "audit":
                await connection.execute(self._sql["begin_audit_purge"], PURGES)
            rows = await connection.fetch(self._sql[f"purge_{table}"], *part, dry_run, mode, *rest)
            lines = [row["lines"] for row in rows if row["lines"] is not None]
            if lines and self._archive is not None and not dry_run:
                await anyio.to_thread.run_sync(self._archive.write, table, "\n".join(lines))
            announce("purge.removed")
        return rows

    async def _limits(self, connection: Connection, table: str) -> tuple[object, ...] | None:
        """Return what the statement about this table takes beside pages and mode; None: nothing may go."""
        facts = await connection.fetch(self._sql["select_retention_facts"], self._names, datetime.now(UTC))
        if not facts:
            return None
        found, now = self._settings.retention, facts[0]["now"]
        held = under_hold(self._settings, self._by_number)
        if table in ("inbox", "duplicates"):
            rules = [rule for row in facts if isinstance(rule := self._decided(row), Rule)]
            columns = [[getattr(r, name) for r in rules] for name in _COLUMNS]
            return tuple(columns) if rules else None
        if table == "intents":
            free = [PRODUCERS, *(row["number"] for row in facts if row["number"] not in held)]
            return free, now - _span(found.intent_retention_s), now
        if table in ("quarantine", "decisions"):
            kept = (
                found.quarantine_payload_retention_s
                if table == "quarantine"
                else found.decision_payload_retention_s
            )
            return [row["number"] for row in facts if row["number"] not in held], now - _span(kept)
        if table == "audit":
            return (now - _span(found.audit_retention_s),)
        return now - _span(found.archive_retention_s), held

    def _decided(self, row: Record) -> Rule | Held:
        name = row["name"]
        rule = decide(row, self._settings.policy(name), self._settings, self._configs.get(row["stream"]))
        if isinstance(rule, Held):
            self._held[name] = rule
            return rule
        return msgspec.structs.replace(rule, before=min(rule.before, self._began))

    async def _forgot_cancels(self) -> int:
        """Remove some of the cancels that were applied so long ago that their intents are gone; return how many."""
        held = under_hold(self._settings, self._by_number)
        free = [number for number in self._by_number if number not in held]
        kept_s = _span(self._settings.retention.intent_retention_s)
        async with self._lend() as connection:
            gone: int = await connection.fetchval(
                self._sql["delete_settled_cancels"], free, datetime.now(UTC) - kept_s, CANCELS
            )
        return gone

    async def _forgot_operations(self) -> int:
        """Remove some of the operations that ended so long ago, with their items; return how many."""
        before = datetime.now(UTC) - _span(self._settings.retention.operation_retention_s)
        async with self._lend() as connection:
            given = (before, OPERATIONS, ITEMS)
            gone: int = await connection.fetchval(self._sql["delete_ended_operations"], *given)
        return gone

    async def _tidy(self, dry_run: bool) -> int:
        """Remove what grows with processes, and files whose time is over; how many files."""
        if not dry_run:
            async with self._lend() as connection, connection.transaction():
                numbers = list(self._by_number)
                await connection.execute(self._sql["merge_counters_of_dead_runners"], numbers, GONE_S)
                await connection.execute(self._sql["merge_counters_of_old_hours"], numbers, HOURS_S)
                await connection.execute(self._sql["delete_dead_runners"], numbers, GONE_S)
            while not self._is_kept("intents") and await self._forgot_cancels() >= CANCELS:
                announce("purge.stepped")
            while not self._is_kept("operations") and await self._forgot_operations():
                announce("purge.stepped")
        found = self._settings.retention
        if (
            self._archive is None
            or found.archive_retention_s == "forever"
            or under_hold(self._settings, self._by_number)
        ):
            return 0
        archive, kept_s = self._archive, found.archive_retention_s
        return await anyio.to_thread.run_sync(lambda: archive.expire(kept_s, dry_run=dry_run))


_COLUMNS = ("consumer", "before", "floor", "incarnation")


def _span(kept: float | str) -> timedelta:
    assert kept != "forever", "such a table is not walked"
    return timedelta(seconds=min(float(kept), 1e9))

"""Empties the archive for an erase, table and files: the same rows stay, without their content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from projectionist.core.postgres.connections import advisory_key
from projectionist.core.testpoints import announce
from projectionist.runner.retention.archived_content import ArchivedContent, ArchiveTarget, emptied

if TYPE_CHECKING:
    from pathlib import Path

    from projectionist.core.settings.settings import Retention
    from projectionist.runner.admin.erasure_report import EraseTarget
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.history.progress import Progress

STEP = 1_000
"""So many rows of the table are emptied in one transaction."""


class ErasedArchive:
    """Looks for a target in the archive, and empties it there."""

    def __init__(
        self, queries: Queries, retention: Retention, folder: Path | None, progress: Progress
    ) -> None:
        self._queries, self._folder, self._progress = queries, folder, progress
        self._has_files = retention.archive == "files"
        self._purge = advisory_key(queries.schema, "purge")

    @property
    def is_elsewhere(self) -> bool:
        """Return whether retention writes files that are not here."""
        return self._has_files and (self._folder is None or not self._folder.is_dir())

    async def count(self, target: EraseTarget) -> tuple[int, int]:
        """Return how many rows of the table are the target's, and how many files may hold it."""
        rows: int = await self._queries.value("count_archived", *target.arguments)
        files = self._files_of(target)
        return rows, 0 if files is None else len(await anyio.to_thread.run_sync(lambda: list(files.files())))

    async def empty(self, target: EraseTarget, count: int) -> None:
        """Empty the table's rows, step by step until nothing is left; `count` is how many there were."""
        self._progress.begin("emptying the archive", count)
        while True:
            async with self._queries.connection.transaction():
                rows = await self._queries.rows("select_archived", *target.arguments, STEP)
                lines = [
                    msgspec.json.encode(emptied(row["kind"], msgspec.json.decode(row["line"]))).decode()
                    for row in rows
                ]
                await self._queries.run("update_archived", [row["number"] for row in rows], lines)
                announce("erase.archiving")
            await self._progress.advance(len(rows))
            if len(rows) < STEP:
                return

    async def empty_files(self, target: EraseTarget) -> int:
        """Write files anew that hold it, while no purge appends to them; return how many those are."""
        files, count = self._files_of(target), 0
        if files is None:
            return 0
        async with self._queries.connection.transaction():
            await self._queries.run("lock_purge_step", self._purge)
            await anyio.to_thread.run_sync(files.clear)
        paths = await anyio.to_thread.run_sync(lambda: list(files.files()))
        self._progress.begin("files of the archive", len(paths))
        for path in paths:
            async with self._queries.connection.transaction():
                await self._queries.run("lock_purge_step", self._purge)
                count += bool(await anyio.to_thread.run_sync(files.erase, path))
            await self._progress.advance(1)
        return count

    def _files_of(self, target: EraseTarget) -> ArchivedContent | None:
        if self._folder is None:
            return None
        return ArchivedContent(self._folder, ArchiveTarget(target.aggregate, target.source, target.id))

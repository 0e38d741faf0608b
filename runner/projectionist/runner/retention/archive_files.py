"""Files that rows are written to before retention removes them: a line of JSON a row, safe on disk before the commit.

A purge that dies between the two archives the same rows once more; a line without an end is one that was not finished,
and its row is still in the database.
"""

from __future__ import annotations

import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

from projectionist.core import own_files
from projectionist.core.errors import ProjectionistError


class ArchiveFailed(ProjectionistError):
    """A row cannot be archived, and so stays where it is."""


SUFFIX = ".jsonl"
UNFINISHED = ".erasing"
"""What the name of a file ends in that an erase has not finished: no reader takes it for one of the archive."""
PATTERN = f"*/*{SUFFIX}"


class Archive:
    """A folder: `<folder>/<table>/<begin of the purge>-<process>.jsonl`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}{SUFFIX}"

    def write(self, table: str, lines: str) -> None:
        """Append lines; returns when they are on disk. Raises ArchiveFailed."""
        try:
            self._write(table, lines)
        except OSError as error:
            raise ArchiveFailed(
                f"{error.filename or self._folder} cannot be written: {error.strerror}; nothing is removed",
                remedy="See to archive_folder of [retention]",
            ) from error

    def _write(self, table: str, lines: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / table
        place.mkdir(mode=0o700, exist_ok=True)
        if why := own_files.shared(place):
            raise ArchiveFailed(
                f"{place} {why}; nothing is removed",
                remedy="Make it a folder of this user's own, for it alone: see archive_folder of [retention]",
            )
        path = place / self._name
        is_new = not path.exists()
        number = own_files.open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(number, "ab") as file:
            file.write(lines.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(place)

    def expire(self, kept_s: float, *, dry_run: bool) -> int:
        """Remove files that were written to last so long ago, unfinished ones too; how many those are."""
        limit = time.time() - kept_s
        paths = [*self._folder.glob(PATTERN), *self._folder.glob(PATTERN + UNFINISHED)]
        found = [(path, path.lstat()) for path in paths if not path.parent.is_symlink()]
        old = [path for path, seen in found if stat.S_ISREG(seen.st_mode) and seen.st_mtime < limit]
        for path in old if not dry_run else ():
            path.unlink(missing_ok=True)
        return len(old)


def sync_folder(folder: Path) -> None:
    """Write the folder too: a new file is there after a crash only then."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

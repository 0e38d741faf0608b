"""Takes the content out of archived rows: identity, hashes and places stay. Pure, but for the files it is asked for.

A file is written anew beside the old one, is safe on disk, and takes its place in one step: whoever dies in between has
changed nothing, and does it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from projectionist.core.testpoints import announce
from projectionist.runner.retention.archive_files import SUFFIX, UNFINISHED, ArchiveFailed, sync_folder

CONTENT: Mapping[str, Mapping[str, Any]] = {
    "inbox": {"data": None, "tracestate": None},
    "intents": {
        "body": "",
        "destination": "",
        "ordering": None,
        "scope": None,
        "excerpt": None,
        "error": None,
        "tracestate": None,
        "baggage": None,
    },
}
"""By kind of row: what stands instead of its content."""
_ATTEMPT = {"excerpt": None, "reason": None}
BEGINS = b'{"id": '
"""A row as PostgreSQL writes it: the shortest name first."""


class ArchiveTarget(msgspec.Struct, frozen=True):
    """The rows that are meant: an aggregate's, or one event's."""

    aggregate: str | None = None
    source: str | None = None
    id: str | None = None

    def chooses(self, row: Mapping[str, Any]) -> bool:
        """Return whether an archived row is one of them."""
        if self.aggregate is not None:
            return row.get("aggregate") == self.aggregate
        return (row.get("source"), row.get("id")) == (self.source, self.id)


def emptied(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return an archived row without its content."""
    made = row | {key: value for key, value in CONTENT[kind].items() if key in row} | {"erased": True}
    if isinstance(attempts := row.get("attempts"), list):
        made["attempts"] = [attempt | _ATTEMPT for attempt in attempts]
    return made


class ArchivedContent:
    """The archive's files in one folder, while nobody appends to them."""

    def __init__(self, folder: Path, target: ArchiveTarget) -> None:
        self._folder, self._target = folder, target
        self._needle = msgspec.json.encode(target.aggregate or target.id)

    def files(self) -> Iterator[Path]:
        """Yield the files that hold content of the target."""
        for kind in CONTENT:
            for path in sorted((self._folder / kind).glob(f"*{SUFFIX}")):
                if self._count(kind, path):
                    yield path

    def count(self) -> int:
        """Return how many rows hold content of the target."""
        return sum(self._count(path.parent.name, path) for path in self.files())

    def clear(self) -> None:
        """Remove what an erase that died has not finished: nobody may ever ask for the content in it again."""
        for kind in CONTENT:
            for path in (self._folder / kind).glob(f"*{SUFFIX}{UNFINISHED}"):
                if path.is_file():
                    with _told(path):
                        path.unlink()

    def erase(self, path: Path) -> int:
        """Write a file without the content of its rows; how many there were. Raises ArchiveFailed."""
        with _told(path):
            return self._replace(path)

    def _replace(self, path: Path) -> int:
        before, fresh, changed = path.stat(), path.with_name(path.name + UNFINISHED), 0
        number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with path.open("rb") as old, os.fdopen(number, "wb") as new:
            for line in old:
                row, kept = self._read(line)
                changed += row is not None or kept != line
                new.write(
                    kept if row is None else msgspec.json.encode(emptied(path.parent.name, row)) + b"\n"
                )
            new.flush()
            os.fsync(new.fileno())
        os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))  # its age is the rows', not the erase's
        announce("erase.file_written")
        fresh.replace(path)
        sync_folder(path.parent)
        announce("erase.file_replaced")
        return changed

    def _count(self, kind: str, path: Path) -> int:
        if kind not in CONTENT or not path.is_file():
            return 0
        with path.open("rb") as file:
            return sum(row is not None or kept != line for line in file for row, kept in (self._read(line),))

    def _read(self, line: bytes) -> tuple[dict[str, Any] | None, bytes]:
        """Return the row of a line that has content of the target, and what is kept of any other line.

        The beginning of a row that was not finished goes: nobody can tell whose it is, and the row was archived again.
        """
        if not line.endswith(b"\n"):
            return None, b""
        if self._needle not in line:
            return None, line
        row = _row(line)
        if row is None:
            line = line[max(0, line.rfind(BEGINS)) :]
            row = _row(line)
        if row is None:
            return None, b""
        meant = self._target.chooses(row) and not row.get("erased")
        return (row, b"") if meant else (None, line)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say what to do about a file that cannot be changed."""
    try:
        yield
    except OSError as error:
        raise ArchiveFailed(
            f"{error.filename or path} cannot be written anew: {error.strerror}; it is as it was",
            remedy="See to the folder, and erase again: what is done is not done twice",
        ) from error


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None

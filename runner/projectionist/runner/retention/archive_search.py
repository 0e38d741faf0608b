"""Finds what retention has moved to files: the rows of one event, aggregate or intent, and what could not be read.

Files are read newest first and no further than a bound; only lines that hold the text are decoded. What is no row of
ours is passed over and told of, whoever has put it there.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from projectionist.runner.retention.archive_files import SUFFIX

MOST_BYTES = 4 * 1024**3
"""So much is read for one question."""
MOST_ROWS = 10_000
"""So many rows are kept of what was found."""
MOST_LINE = 64 * 1024**2
"""A longer line is none of ours: a row holds one event, in hexadecimal digits."""
BLOCK = 4 * 1024**2

Int4 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Int8 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Attempt(TypedDict):
    """One attempt of an intent, as the archive keeps it."""

    attempt: int
    started: datetime
    took_s: float | None
    outcome: str
    status: str | None
    provider_id: str | None
    reason: str | None
    relay: str


class InboxLine(msgspec.Struct, frozen=True):
    """What of an archived row of the inbox is shown."""

    consumer: Int4
    source: str
    id: str
    state: str
    verdict: str
    incarnation: Int4
    seq: Int8
    subject: str
    type: str
    event_schema: Int4
    batch: Int8
    received: datetime
    processed: datetime
    aggregate: str | None = None
    version: Int8 | None = None
    correlation: str | None = None
    causation: str | None = None
    traceparent: str | None = None
    idle: bool | None = None


class IntentLine(msgspec.Struct, frozen=True):
    """What of an archived intent is shown, with its attempts."""

    seq: Int8
    key: str
    consumer: Int4
    source: str
    id: str
    slot: str
    class_: str = msgspec.field(name="class")
    provider: str
    destination: str
    state: str
    created: datetime
    scope: str | None = None
    settled: datetime | None = None
    error: str | None = None
    attempts: list[Attempt] | None = None


class ArchivedRows(msgspec.Struct):
    """The rows that were found, each once, and what was not looked at."""

    inbox: dict[tuple[int, str, str], InboxLine] = {}
    intents: dict[str, IntentLine] = {}
    notes: list[str] = []

    def sources(self, event: str) -> set[str]:
        """Return the sources under which an event's id was found."""
        rows: list[InboxLine | IntentLine] = [*self.inbox.values(), *self.intents.values()]
        return {row.source for row in rows if row.id == event}


class ArchiveSearch:
    """Looks through a folder of the archive, once for each text."""

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES, most_rows: int = MOST_ROWS) -> None:
        self._folder = folder
        self._left, self._most_bytes, self._most_rows = most_bytes, most_bytes, most_rows
        self._rows = ArchivedRows()
        self._trouble: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def find(self, text: str) -> ArchivedRows:
        """Return the rows of the event with this id, of the aggregate of this name, or the intent with this key."""
        if not self._folder.is_dir():
            self._rows.notes.append(
                f"the archive is not read: {self._folder} is no folder here. Name a copy of it with --archive"
            )
            return self._rows
        needle, files = msgspec.json.encode(text), list(self._files())
        for number, path in enumerate(files, 1):
            try:
                self._read(path, text, needle)
            except OSError as error:
                self._note("files cannot be read", f"{path}: {error.strerror}")
            if self._left <= 0 or self._full:
                self._bounded(len(files) - number)
                break
        self._rows.notes += [
            f"of the archive, {n:,} {what}, like {self._examples[what]}" for what, n in self._trouble.items()
        ]
        return self._rows

    @property
    def _full(self) -> bool:
        return len(self._rows.inbox) + len(self._rows.intents) >= self._most_rows

    def _files(self) -> list[Path]:
        """Return the files, newest first, as their names say when they were begun."""
        found: list[Path] = []
        for kind in _LINES:
            try:
                paths = list((self._folder / kind).iterdir())
            except FileNotFoundError:
                continue
            except OSError as error:
                self._note("folders cannot be read", f"{self._folder / kind}: {error.strerror}")
                continue
            found += [path for path in paths if path.suffix == SUFFIX]
            for path in paths:
                if path.suffix != SUFFIX:
                    self._note(f"files are not {SUFFIX} and were not read", f"{path} (unpack it first)")
        return sorted(found, key=lambda path: path.name, reverse=True)

    def _read(self, path: Path, text: str, needle: bytes) -> None:
        if not stat.S_ISREG(path.stat().st_mode):
            self._note("names are of no files", str(path))
            return
        kind = _LINES[path.parent.name]
        for line in self._lines(path, needle):
            try:
                row = msgspec.json.decode(line, type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError):
                row = None
            if row is None or b"\\u0000" in line:
                self._note("lines are not what retention writes", str(path))
            elif isinstance(row, InboxLine):
                if text in (row.id, row.aggregate):
                    self._rows.inbox.setdefault((row.consumer, row.source, row.id), row)
            elif text in (row.id, row.key):
                self._rows.intents.setdefault(row.key, row)
            if self._full:
                return

    def _lines(self, path: Path, needle: bytes) -> Iterator[bytes]:
        """Yield lines that hold the needle; one without an end was not finished, and its row is in the database."""
        rest = b""
        with path.open("rb") as file:
            while self._left > 0 and (block := file.read(min(BLOCK, self._left))):
                self._left -= len(block)
                whole, _, rest = (rest + block).rpartition(b"\n")
                if needle in whole:
                    yield from (line for line in whole.split(b"\n") if needle in line)
                if len(rest) > MOST_LINE:
                    self._note("files have a line that is longer than any row, and were not read", str(path))
                    return

    def _note(self, what: str, example: str) -> None:
        self._trouble[what] += 1
        self._examples.setdefault(what, example)

    def _bounded(self, files: int) -> None:
        why = (
            f"{self._most_rows:,} rows were found"
            if self._full
            else f"{self._most_bytes / 1024**2:,.0f} MiB were read"
        )
        self._rows.notes.append(
            f"the archive is not read to its end: {why}, and {files:,} older files are left. "
            "Give --archive a folder that holds fewer of them"
        )


_LINES: dict[str, type[InboxLine | IntentLine]] = {"inbox": InboxLine, "intents": IntentLine}
"""What a line holds, by the folder that its file is in."""

"""Events on disk, by hash of the row they belong to: so that a read model larger than memory can be folded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import IO, Any, Self
from zlib import crc32

from projectionist.core.nats.fast_client import Arrival
from projectionist.projections.compiled.definition import Definition
from projectionist.projections.tables.table_key import Keys, Prefix

_HEAD = Struct("!IIII")
_NO_HEAD = 0xFFFFFFFF


class Buckets:
    """Which bucket of so many a view's row is in, the same in every process; the rows that one prefix tells are in one.

    So are those of several views where the aggregate's id alone tells it: an event is put there once for all of them.
    """

    def __init__(self, definition: Definition, many: int) -> None:
        self.many = many
        self._leading = leading_columns(definition)

    def of(self, key: Any) -> int:
        """Return the bucket of a row."""
        told = key if self._leading is None else key[0] if self._leading == 1 else key[: self._leading]
        return crc32(repr(told).encode()) % self.many

    def of_event(self, key: Any) -> Sequence[int]:
        """Return the buckets of an event's rows; the first where it has none, so that it is met."""
        if isinstance(key, Keys):
            return tuple(sorted({self.of(one) for one in key.listed})) or (0,)
        return (self.of(key.values if isinstance(key, Prefix) else key),)

    def within(self, key: Any, bucket: int) -> Any:
        """Return what of an event's key is about rows of this bucket; None where nothing is."""
        if isinstance(key, Keys):
            return Keys(tuple(one for one in key.listed if self.of(one) == bucket))
        return key if self.of(key.values if isinstance(key, Prefix) else key) == bucket else None


def leading_columns(definition: Definition) -> int | None:
    """Return how many columns of the key tell the bucket of a row; None: all. One, the aggregate's id, where a handler
    has several rows of its own: then all of an event are in one bucket."""
    several = [one for one in definition.handlers.values() if one.several]
    if any(one.own for one in several):
        return 1
    return min((len(one.rows) for one in several if one.rows), default=None)


class Spill:
    """Temporary files, one a bucket, which vanish with the process. Buckets in `finished` are not kept."""

    def __init__(self, buckets: int, finished: list[int]) -> None:
        self.buckets = buckets
        self._files: dict[int, IO[bytes]] = {
            bucket: tempfile.TemporaryFile(prefix="projectionist-rebuild-", buffering=256 * 1024)  # noqa: SIM115 - __exit__ closes them
            for bucket in range(buckets)
            if bucket not in finished
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    @property
    def open(self) -> list[int]:
        """Return the buckets that are still to be folded."""
        return sorted(self._files)

    def put(self, bucket: int, arrival: Arrival) -> None:
        """Append an event to its bucket."""
        file = self._files.get(bucket)
        if file is None:
            return
        subject, head = arrival.subject.encode("utf-8", "surrogateescape"), arrival.head
        sizes = (len(subject), len(arrival.reply), _NO_HEAD if head is None else len(head), len(arrival.data))
        file.write(b"".join((_HEAD.pack(*sizes), subject, arrival.reply, head or b"", arrival.data)))

    def read(self, bucket: int) -> Iterator[Arrival]:
        """Yield the events of a bucket in the order in which they were put; its file is gone afterwards."""
        with self._files.pop(bucket) as file:
            file.seek(0)
            while head := file.read(_HEAD.size):
                subject, reply, header, data = _HEAD.unpack(head)
                yield Arrival(
                    subject=file.read(subject).decode("utf-8", "surrogateescape"),
                    reply=file.read(reply),
                    head=None if header == _NO_HEAD else file.read(header),
                    data=file.read(data),
                    received=0.0,
                )

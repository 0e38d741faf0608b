"""Events on disk, by hash of the row they belong to: so that a read model larger than memory can be folded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from struct import Struct
from typing import IO, Any, Self
from zlib import crc32

from projectionist.core.nats.fast_client import Arrival

_HEAD = Struct("!IIII")
_NO_HEAD = 0xFFFFFFFF


def bucket_of(key: Any, buckets: int) -> int:
    """Return the bucket of a row; the same in every process."""
    return crc32(repr(key).encode()) % buckets


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

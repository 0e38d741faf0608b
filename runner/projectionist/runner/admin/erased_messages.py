"""The messages of erased events in their streams: where they are, and how they are deleted for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from projectionist.core.testpoints import announce
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.admin.erasure_report import CannotErase, StreamPlaces
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan, sequence

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.admin.erasure_report import EraseTarget
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.history.progress import Progress


class ErasedMessages:
    """Looks for the messages by what the database knows, and by subjects that name the aggregate."""

    def __init__(
        self,
        queries: Queries,
        client: Client,
        settings: Settings,
        definitions: Sequence[Definition],
        progress: Progress,
    ) -> None:
        self._queries, self._client, self._definitions = queries, client, definitions
        self._progress = progress
        self._readers: defaultdict[str, list[Decoder]] = defaultdict(list)
        for one in definitions:
            self._readers[one.stream].append(Decoder.of(one, settings.policy(one.consumer)))

    async def find(self, target: EraseTarget, consumers: Sequence[Record]) -> list[StreamPlaces]:
        """Return what the streams still hold."""
        waits: defaultdict[str, dict[int, bool]] = defaultdict(dict)
        for row in await self._queries.rows("select_stream_places", *target.arguments):
            waits[row["stream"]][row["seq"]] = row["waits"]
        for stream, subject in self._subjects(target):
            for arrival in await self._headers(stream, subject):
                if self._is_meant(target, stream, arrival, sequence(arrival)):
                    waits[stream].setdefault(sequence(arrival), False)
        found = []
        for stream, places in sorted(waits.items()):
            readers = [_MessageReader(row) for row in consumers if row["stream"] == stream]
            self._progress.begin(f"looking into stream {stream}", len(places))
            held = {seq: one for seq in sorted(places) if (one := await self._held(target, stream, seq))}
            unsettled = [
                seq for seq, one in held.items() if places[seq] or await self._is_needed(readers, one, seq)
            ]
            if held:
                found.append(StreamPlaces(stream, list(held), unsettled))
        return found

    async def _held(self, target: EraseTarget, stream: str, seq: int) -> Arrival | None:
        """Return what the stream holds there: under this number another one may have another message by now."""
        message = await api.message(self._client, stream, seq)
        await self._progress.advance(1)
        arrival = None if message is None else message.arrival()
        return arrival if arrival is not None and self._is_meant(target, stream, arrival, seq) else None

    def _is_meant(self, target: EraseTarget, stream: str, arrival: Arrival, seq: int) -> bool:
        read = (reader.reread(arrival, seq) for reader in self._readers[stream])
        if target.aggregate is not None:
            return any(one.aggregate == target.aggregate for one in read)
        return any((one.source, one.id) == (target.source, target.id) for one in read)

    async def _is_needed(self, readers: Sequence[_MessageReader], arrival: Arrival, seq: int) -> bool:
        """Return whether a consumer, of whatever app, reads such messages and has not come to this one."""
        behind = [one for one in readers if one.may_need(arrival.subject, seq)]
        if not behind:
            return False
        read = [reader.reread(arrival, seq) for reader in self._readers[behind[0].stream]]
        names = {(one.source, one.id) for one in read if isinstance(one, Delivery)}
        for one in behind:
            known = [await self._queries.rows("select_event_places", one.number, *name) for name in names]
            if not any(known):
                return True
        return False

    async def delete(self, places: StreamPlaces) -> None:
        """Delete what is settled, and have the broker write over it. What is gone by now is gone."""
        self._progress.begin(f"deleting from stream {places.stream}", len(places.sequences))
        for seq in places.sequences:
            if seq in places.unsettled:
                continue
            try:
                await api.delete_message(self._client, places.stream, seq)
            except api.BrokerError as error:
                raise CannotErase(
                    f"message {seq} of stream {places.stream} cannot be deleted: {error}",
                    remedy="The stream may deny it (deny_delete); everything else is erased, erase again with --stream",
                ) from error
            places.deleted += 1
            await self._progress.advance(1)
            announce("erase.message_deleted")

    def _subjects(self, target: EraseTarget) -> list[tuple[str, str]]:
        kind, _, name = (target.aggregate or "").partition("/")
        if target.aggregate is None:
            return []
        named = ((one.stream, one.subjects.subject_for(kind, name)) for one in self._definitions)
        return sorted({(stream, subject) for stream, subject in named if subject is not None})

    async def _headers(self, stream: str, subject: str) -> list[Arrival]:
        last = (await api.stream(self._client, stream)).state.last_seq
        blocks = scan(self._client, stream, subject, 1, last, headers_only=True)
        async with aclosing(blocks):
            return [arrival async for block in blocks for arrival in block]


class _MessageReader:
    """A registered consumer, as far as a message may still be needed by it."""

    def __init__(self, row: Record) -> None:
        self.number, self.stream, self._floor = row["number"], row["stream"], row["floor"]
        self._subjects = Subjects(row["subjects"].split()) if row["subjects"] else None

    def may_need(self, subject: str, seq: int) -> bool:
        """Return whether it stands before this message, and reads such subjects."""
        return seq > self._floor and (self._subjects is None or self._subjects.reads(subject))

"""Acts on quarantined events for an operator; a runner then reads them again, within a second or so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.content_hash import data_hash
from projectionist.core.operator import Act, NotThere, TooLate
from projectionist.core.states import DecisionKind, InboxState, IncidentKind
from projectionist.core.testpoints import announce
from projectionist.runner.decoding.header_parser import replaced

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.runner.batch.inbox_store import InboxStore

Place = tuple[int, int]
"""Incarnation and sequence of the stream: an entry may have no identity, or that of another event."""
REUSES = frozenset({IncidentKind.IDENTITY_REUSE, IncidentKind.VERSION_REUSE})


class QuarantineActions:
    """The verbs for one consumer's quarantine. Each raises TooLate where the entry is in quarantine no more."""

    def __init__(self, store: InboxStore) -> None:
        self._store = store

    async def retry(self, place: Place, act: Act, *, attempts: int | None = None) -> None:
        """Read it again by the code and settings of the runners. If it is an event now, it is settled like any other;
        if not, it stays, with one more attempt counted.

        `attempts` is how often the operator saw it read again; raises TooLate if it was since.
        """
        async with self._entry(place) as entry:
            _compare(entry, attempts)
            self._refuse_reuse(entry)
            await self._store.run("schedule_quarantine_reread", *place, None)
            await self._record("retry", place, act)

    async def edit(
        self,
        place: Place,
        act: Act,
        *,
        headers: Mapping[str, str | None] | None = None,
        data: bytes | None = None,
    ) -> None:
        """Read it again with these headers over its own (None removes one), with this data, or both.

        What came from the stream stays as it was; the decision holds what is read instead, in rebuilds too.
        Raises BadHeader for what cannot travel in a header.
        """
        if not headers and data is None:
            raise NotThere("an edit needs headers or data", remedy="Use retry to read the entry as it is")
        async with self._entry(place) as entry:
            self._refuse_reuse(entry)
            if headers and entry["is_reference"]:
                raise NotThere(
                    "only a reference to it was kept, since quarantine was full, and its headers are in the stream",
                    remedy="Have it read again with `retry`, or publish it anew and discard this one",
                )
            head = replaced(entry["headers"], headers) if headers else None
            digest = entry["hash"] if data is None else data_hash(data)
            decision = await self._decide(DecisionKind.EDIT, place, act, head, data, digest)
            await self._store.run("schedule_quarantine_reread", *place, decision)
            await self._store.run("delete_reading_marks", *place)
            hashes = {"first": entry["hash"].hex(), "edited": digest.hex(), "headers": sorted(headers or ())}
            await self._record("edit", place, act, hashes)

    async def discard(self, place: Place, act: Act, *, attempts: int | None = None) -> None:
        """Drop it for good: it is no event, in rebuilds neither. For `attempts` see retry."""
        async with self._entry(place) as entry:
            _compare(entry, attempts)
            await self._store.run("discard_quarantined", *place)
            if (
                entry["reason"] == IncidentKind.VERSION_REUSE
            ):  # claimed its identity before it lost the version
                await self._store.run("set_inbox_state", entry["source"], entry["id"], InboxState.DISCARDED)
            await self._decide(DecisionKind.DISCARD, place, act, None, None, entry["hash"])
            await self._record("discard", place, act)
            await self._store.rows("close_settled_incidents")

    @asynccontextmanager
    async def _entry(self, place: Place) -> AsyncIterator[Record]:
        async with self._store.connection.transaction():
            await self._store.enter()
            entry = await self._store.row("lock_quarantined_event", *place)
            if entry is None:
                raise NotThere(
                    f"nothing of sequence {place[1]} (incarnation {place[0]}) was put into quarantine"
                )
            if entry["state"] != InboxState.QUARANTINED:
                raise TooLate(
                    f"sequence {place[1]} is in quarantine no more", remedy=f"It has been {entry['state']}"
                )
            yield entry
            announce("action.written")

    def _refuse_reuse(self, entry: Record) -> None:
        if entry["reason"] in REUSES:
            what = "identity" if entry["reason"] == IncidentKind.IDENTITY_REUSE else "version"
            raise NotThere(
                f"it was read well, but its {what} belongs to another event: {entry['id']!r} came first",
                remedy="Discard it; what it meant to say has to come as an event of its own",
            )

    async def _decide(
        self,
        kind: DecisionKind,
        place: Place,
        act: Act,
        headers: bytes | None,
        data: bytes | None,
        digest: bytes,
    ) -> int:
        row = await self._store.row(
            "insert_quarantine_decision", *place, kind, headers, data, digest, act.actor, act.reason
        )
        assert row is not None, "an insert returns its row"
        number: int = row["number"]
        return number

    async def _record(
        self, action: str, place: Place, act: Act, detail: Mapping[str, object] | None = None
    ) -> None:
        text = msgspec.json.encode(detail or {}).decode()
        where = f"sequence {place[1]} of incarnation {place[0]}"
        await self._store.run("insert_audit_entry", action, where, act.actor, act.reason, text)


def _compare(entry: Record, attempts: int | None) -> None:
    """Raise TooLate if the operator decides about something else than what stands there."""
    if attempts is not None and entry["attempts"] != attempts:
        raise TooLate(
            f"it was read again meanwhile: {entry['attempts']} times, not {attempts}",
            remedy="Look again before you decide",
        )

"""Shows operators parked events, over all consumers: groups of them, each of them, one with all that is known."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from projectionist.core import json_limits
from projectionist.core.content_hash import event_hash
from projectionist.core.digest import is_digest
from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import NotThere, TooLate
from projectionist.core.postgres.statements import Statements
from projectionist.runner.admin.parked_actions import SeenHead
from projectionist.runner.consumers.registry import registration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.core.settings.settings import Policy

MOST = 1_000_000
LOOKED_AT = 10_000
"""So many events are looked at when groups are counted, over all groups."""


class ParkedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of parked events; what is None does not matter."""

    consumer: str | None = None
    cause: str | None = None
    type: str | None = None
    aggregate: str | None = None
    error: str | None = None
    """Its text, whole or without numbers and quoted values, or the digest of the latter."""
    older_s: float | None = None
    ids: Sequence[str] | None = None
    source: str | None = None

    def arguments(self) -> tuple[object, ...]:
        """Return the values in the order the statements take them."""
        return msgspec.structs.astuple(self)

    @property
    def group(self) -> tuple[str | None, ...] | None:
        """Return consumer, cause, type and digest, by which groups are counted; None if anything else is chosen by."""
        if (self.aggregate, self.older_s, self.ids, self.source) != (None, None, None, None):
            return None
        if self.error is not None and not is_digest(self.error):
            return None
        return self.consumer, self.cause, self.type, self.error


class ParkedGroup(msgspec.Struct, frozen=True):
    """Parked events that are alike; `sample` is the id of the first in the stream."""

    consumer: str
    cause: str
    type: str
    alike: str
    """The digest of why they wait, by which they are chosen."""
    why: str
    """Of a failed one the error's text, which is content, without numbers and quoted values."""
    own: str | None
    """The whole text, if all failed with the same."""
    count: int
    waiting: int
    """How many of them are heads that wait for new code or for a person."""
    oldest: datetime
    sample: str
    source: str
    """Of the sample."""
    bounded: bool = False
    """Whether not all were looked at: `waiting` is so many or more."""


class ParkedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One parked event."""

    consumer: int
    name: str
    """Of the consumer."""
    source: str
    id: str
    type: str
    aggregate: str | None
    version: int | None
    ordered: bool
    cause: str
    why: str
    own: str | None
    """The whole text of its error, if it failed."""
    attempts: int
    parked_at: datetime
    next_try: datetime | None
    position: int | None
    head: str | None
    finding: str | None
    heads: bool
    """Whether it is what its aggregate, or without order itself, waits for."""
    waits: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """Return consumer, source and id."""
        return self.name, self.source, self.id

    @property
    def seen(self) -> SeenHead:
        """Return what an action on its aggregate is compared with."""
        return SeenHead(self.position or 0, (self.source, self.id), self.attempts)

    @property
    def place(self) -> str:
        """Return what an action on it is about, for people."""
        return self.aggregate if self.ordered and self.aggregate is not None else self.id


class ParkedPage(NamedTuple):
    """Parked events one by one, the groups that they are of, and of which class and where the errors were."""

    groups: list[ParkedGroup]
    events: list[ParkedEntry]
    failures: dict[tuple[str, str, str], str]


class CountedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """How many parked events are chosen, as far as they were counted, and the first of them in the stream."""

    events: int
    name: str
    """Of its consumer."""
    source: str
    id: str
    ordered: bool
    aggregate: str | None

    @property
    def place(self) -> str:
        """Return what an action on the first is about, for people."""
        return self.aggregate if self.ordered and self.aggregate is not None else self.id

    @property
    def first(self) -> ParkedFilter:
        """Return what chooses the first alone."""
        return ParkedFilter(consumer=self.name, source=self.source, ids=[self.id])


class ParkedQueries:
    """Reads over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)

    async def groups(self, chosen: ParkedFilter) -> list[ParkedGroup]:
        """Return parked events by consumer, cause, type and error, the largest group first."""
        if (group := chosen.group) is not None:
            given = (*group, LOOKED_AT)
            rows = await self._connection.fetch(self._sql["select_parked_groups_by_count"], *given)
        else:
            rows = await self._connection.fetch(self._sql["select_parked_groups"], *chosen.arguments())
        return [msgspec.convert(dict(row), ParkedGroup) for row in rows]

    async def page(self, chosen: ParkedFilter, limit: int) -> ParkedPage:
        """Return the first of the chosen in the order of the stream, with their groups; of one group at once."""
        if (group := chosen.group) is None or None in group:
            groups, events = await self.groups(chosen), await self.each(chosen, limit)
            failures = await self.failures([one.key for one in events])
            return ParkedPage(groups, events, failures)
        row = await self._connection.fetchrow(self._sql["select_parked_page"], *group, limit, LOOKED_AT)
        assert row is not None, "it always answers"
        decode = msgspec.json.decode
        events = decode(row["events"], type=list[ParkedEntry])
        failures = _failures([one.key for one in events], decode(row["failures"]))
        return ParkedPage(decode(row["groups"], type=list[ParkedGroup]), events, failures)

    async def each(self, chosen: ParkedFilter, limit: int) -> list[ParkedEntry]:
        """Return parked events one by one, in the order of the stream."""
        if (group := chosen.group) is not None and None not in group:
            rows = await self._connection.fetch(self._sql["select_parked_of_group"], *group, limit)
            return [msgspec.convert(dict(row), ParkedEntry) for row in rows]
        return await self._each(chosen, heads=False, limit=limit)

    async def heads(self, chosen: ParkedFilter, limit: int = MOST) -> list[ParkedEntry]:
        """Return of the chosen those that are to be decided about: what their aggregates wait for, and is not due
        already."""
        return await self._each(chosen, heads=True, limit=limit)

    async def count(self, chosen: ParkedFilter, *, heads: bool, most: int) -> CountedEvents | None:
        """Count the chosen, or of them those that are to be decided about, so many at most; None: there are none."""
        given: tuple[object, ...] = (*chosen.arguments(), heads, most)
        statement = "count_parked"
        if (group := chosen.group) is not None and None not in group:
            given, statement = (*group, heads, most), "count_parked_of_group"
        row = await self._connection.fetchrow(self._sql[statement], *given)
        return None if row is None else CountedEvents(**dict(row))

    async def _each(self, chosen: ParkedFilter, *, heads: bool, limit: int) -> list[ParkedEntry]:
        rows = await self._connection.fetch(self._sql["select_parked"], *chosen.arguments(), heads, limit)
        return [msgspec.convert(dict(row), ParkedEntry) for row in rows]

    async def show(self, event: str, consumer: str | None, source: str | None) -> list[dict[str, Any]]:
        """Return all that is known of the parked events with this id: one a consumer; NotThere if nowhere."""
        rows = await self._connection.fetch(self._sql["select_parked_details"], event, consumer, source)
        if not rows:
            raise NotThere(
                f"no event {event!r} is parked", remedy="`projectionist journey` says what became of it"
            )
        return [dict(row) | {"decisions": await self._decided(dict(row))} for row in rows]

    async def _decided(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        given = (row["consumer"], row["source"], row["id"], row["aggregate"], row["version"])
        return [
            dict(each)
            for each in await self._connection.fetch(self._sql["select_decisions_on_event"], *given)
        ]

    async def lacks(self, one: ParkedEntry) -> tuple[int, int]:
        """Return the versions that an aggregate at the head of a gap waits for."""
        row = await self._connection.fetchrow(self._sql["select_missing_range"], one.consumer, one.aggregate)
        if row is None or row["last"] < row["first"]:
            raise NotThere(f"{one.place} misses no version")
        return row["first"], row["last"]

    async def failures(self, events: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
        """Return of these events (consumer, source, id) that failed the class of the error, and where it was raised."""
        rows = await self._connection.fetch(self._sql["select_failure_places"], *_columns(events))
        return _failures(events, rows)

    async def consumer(self, name: str) -> int:
        """Return the number of a consumer; raises NotRegistered for a name that the database does not know."""
        found = await registration(self._connection, self._schema, name)
        number: int = found["number"]
        return number


def _failures(events: Sequence[tuple[str, str, str]], rows: Iterable[Row]) -> dict[tuple[str, str, str], str]:
    """Return by event what rows tell, which number the events from one."""
    told = {row["n"]: " at ".join(filter(None, (row["error_class"], row["raised_at"]))) for row in rows}
    return {events[n - 1]: text for n, text in told.items()}


def _columns(events: Sequence[tuple[str, str, str]]) -> tuple[list[str], list[str], list[str]]:
    return [one[0] for one in events], [one[1] for one in events], [one[2] for one in events]


class BadPayload(ProjectionistError):
    """A corrected payload that could not be read from the stream either."""


async def corrected(
    connection: Connection, schema: str, one: ParkedEntry, data: bytes, policy: Policy
) -> bytes:
    """Return the hash of an event with this payload; BadPayload if no handler would ever see it."""
    if bad := _fault(data, policy):
        raise BadPayload(f"the payload {bad}", remedy="Nothing was changed; mend the file")
    sql = Statements("projectionist.runner", schema)
    rows = await connection.fetch(sql["select_parked_details"], one.id, one.name, one.source)
    if not rows:
        raise TooLate(f"event {one.id!r} is not parked any more")
    return event_hash(one.type, rows[0]["event_schema"], one.aggregate, one.version, data)


def _fault(data: bytes, policy: Policy) -> str | None:
    if len(data) > policy.max_event_bytes:
        return f"has {len(data)} bytes, more than the {policy.max_event_bytes} of max_event_bytes"
    if bad := json_limits.fault(data, policy.max_depth):
        return bad
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return f"is not JSON: {error}"
    return None

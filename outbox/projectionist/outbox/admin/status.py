"""The state of the outbox: intents that wait at each provider, relays that work, and troubles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.postgres.statements import Statements
from projectionist.outbox.admin.intent_actions import FOR_A_PERSON

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row

SILENT_S = 20.0
"""A relay without a heartbeat for so long is dead or suspended."""
MOST = 200_000
"""So many intents are counted at most; a count that reaches it is so many or more."""
_LIST = "`projectionist outbox list --provider {name}`"
LATE_S = 60.0
"""What has been due for so long is told of."""
_KEPT = {
    "behind": (
        "wait until it has settled what was published before",
        'Have it run and catch up; when_behind="send" does not wait',
    ),
    "parked": ("wait for events of their aggregates", "`projectionist parked`"),
    "refused": (
        "wait for intents that could not be unpacked",
        "Start a relay of newer code, which tries them again; its log says why they were refused",
    ),
    "relay": ("no relay has taken them up", "`projectionist relay`"),
}
_HELD = {
    "gone": "the destination says that it is gone",
    "unset": "its settings lack something",
    "missing": "no relay has the provider",
}


class RelayStatus(msgspec.Struct, frozen=True):
    """A process that sends intents."""

    host: str
    pid: int
    providers: list[str]
    started: datetime
    silent_s: float

    @property
    def alive(self) -> bool:
        """Return True where its last heartbeat is fresh."""
        return self.silent_s < SILENT_S


class ProviderStatus(msgspec.Struct):
    """The unsettled intents of one provider."""

    name: str
    waiting: int = 0
    """Intents that go on by themselves, as soon as a relay looks at them."""
    dead: int = 0
    reconcile: int = 0
    held: int = 0
    oldest_s: float | None = None
    circuits: dict[str, int] = {}
    """Destinations that get no intents now, by reason."""
    relays: int = 0
    """Relays that send for it."""


class OutboxProblem(msgspec.Struct, frozen=True):
    """A state that does not end by itself."""

    about: str
    text: str
    remedy: str


class ScheduleStatus(msgspec.Struct, frozen=True):
    """Intents of one consumer that wait for their time, or, being due, for something else."""

    consumer: str | None
    """None: of producers."""
    waits_for: str
    count: int
    late_s: float
    """For how long the first of them has been due; below zero: it is due later."""


class OutboxStatus(msgspec.Struct, frozen=True):
    """Providers, relays, and intents that are still staged."""

    providers: list[ProviderStatus] = []
    relays: list[RelayStatus] = []
    staged: int = 0
    """Intents that no relay has unpacked yet."""
    staged_s: float | None = None
    scheduled: list[ScheduleStatus] = []
    bounded: bool = False
    """There are more intents than were counted: each count is so many or more."""

    @property
    def troubles(self) -> list[OutboxProblem]:
        """Return the intents that wait for an operator, or for a relay to be started."""
        return [
            *self._unserved(),
            *(_late(one, bounded=self.bounded) for one in self.scheduled if one.late_s > LATE_S),
            *(one for each in self.providers for one in _of(each, bounded=self.bounded)),
        ]

    def _unserved(self) -> Iterator[OutboxProblem]:
        if self.staged and not any(one.alive for one in self.relays):
            text = f"{_are(self.staged, 'intent waits', 'intents wait')} to be unpacked, and no relay runs"
            yield OutboxProblem("outbox", text, "`projectionist relay`")


def _late(one: ScheduleStatus, *, bounded: bool) -> OutboxProblem:
    what, remedy = _KEPT[one.waits_for]
    due = _are(one.count, "intent is", "intents are", bounded=bounded)
    text = f"{due} due, the first for {one.late_s:,.0f} s, and {what}"
    return OutboxProblem(one.consumer or "outbox", text, remedy)


def _of(one: ProviderStatus, *, bounded: bool) -> Iterator[OutboxProblem]:
    look = _LIST.format(name=one.name)
    if one.waiting and not one.relays:
        waiting = _are(one.waiting, "intent waits", "intents wait", bounded=bounded)
        text = f"{waiting}, and no relay runs that sends them"
        yield OutboxProblem(one.name, text, "`projectionist relay`")
    for state in sorted(FOR_A_PERSON):
        if count := getattr(one, state):
            text = f"{_are(count, 'intent is', 'intents are', bounded=bounded)} {state}"
            yield OutboxProblem(one.name, text, look)
    for why, count in sorted(one.circuits.items()):
        if why in _HELD:
            text = f"nothing goes to {_are(count, 'destination', 'destinations')}: {_HELD[why]}"
            yield OutboxProblem(one.name, text, look)
        else:
            text = f"{_are(count, 'circuit is', 'circuits are')} {why.replace('_', ' ')}, after failures"
            yield OutboxProblem(one.name, text, f"A circuit closes when a probe goes through; {look}")


def _are(n: int, one: str, others: str, *, bounded: bool = False) -> str:
    """Write how many there are, with the words for one or for others."""
    return f"{many(n, bounded=bounded)} {one if n == 1 and not bounded else others}"


def many(n: int, *, bounded: bool) -> str:
    """Write a count for people: a bounded one says so."""
    return f"{n:,} or more" if bounded else f"{n:,}"


async def look(connection: Connection, schema: str, most: int = MOST) -> OutboxStatus:
    """Return the state of the outbox now."""
    sql = Statements("projectionist.outbox", schema)
    return state_of(
        [msgspec.convert(dict(row), RelayStatus) for row in await connection.fetch(sql["select_relays"])],
        await connection.fetch(sql["select_outbox_metrics"], most),
        await connection.fetch(sql["select_circuit_metrics"]),
        await connection.fetch(sql["select_schedule_metrics"], most),
        most,
    )


def state_of(
    relays: list[RelayStatus],
    unsettled: Sequence[Row],
    circuits: Sequence[Row],
    scheduled: Sequence[Row],
    most: int = MOST,
) -> OutboxStatus:
    """Return the state that relays and the rows of these statements tell. Pure."""
    found: dict[str, ProviderStatus] = {}
    staged, staged_s, counted = 0, None, 0
    for row in unsettled:
        if row["provider"] is None:
            staged, staged_s = row["n"], row["oldest_s"]
        else:
            counted += row["n"]
            _add(found, relays, row["provider"], row["state"], row["n"], row["oldest_s"])
    for row in circuits:
        _provider(found, relays, row["provider"]).circuits[row["state"]] = row["n"]
    for name in sorted({name for one in relays for name in one.providers}):
        _provider(found, relays, name)
    waiting = [
        ScheduleStatus(row["consumer"], row["waits_for"], row["n"], row["late_s"]) for row in scheduled
    ]
    return OutboxStatus(
        providers=[found[name] for name in sorted(found)],
        relays=relays,
        staged=staged,
        staged_s=staged_s,
        scheduled=waiting,
        bounded=counted >= most or sum(one.count for one in waiting) >= most,
    )


def _provider(found: dict[str, ProviderStatus], relays: Sequence[RelayStatus], name: str) -> ProviderStatus:
    serving = sum(1 for one in relays if one.alive and name in one.providers)
    return found.setdefault(name, ProviderStatus(name=name, relays=serving))


def _add(
    found: dict[str, ProviderStatus],
    relays: Sequence[RelayStatus],
    name: str,
    state: str,
    count: int,
    oldest_s: float,
) -> None:
    one = _provider(found, relays, name)
    kind = state if state in FOR_A_PERSON else "waiting"  # what only a newer version knows is none of these
    setattr(one, kind, getattr(one, kind) + count)
    one.oldest_s = max(oldest_s, one.oldest_s or 0.0)

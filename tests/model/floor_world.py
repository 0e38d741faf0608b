"""What the model of floors is made of: a durable as NATS keeps it, PostgreSQL's memory of it, the shipped answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from projectionist.runner.stream_guard.ack_audit import adds_up
from projectionist.runner.stream_guard.verdict import (
    Checkpoint,
    Judgement,
    MessageFingerprint,
    Observation,
    judge,
)

RULES = {
    "rises only": "a floor is written only where it is not below the one that stands there",
    "proven": "a floor of the broker is believed as far as batches have settled what lies below it",
    "read again": "what was acked and never settled is read again",
    "ack last": "what is not settled is not acked",
    "doubt after a start": "a database may lack what it has settled, whenever a process begins",
    "told of what is gone": "what was removed before it was settled is told, and not waited for",
}
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


class Faults(NamedTuple):
    """How often each thing may happen."""

    deaths: int = 0
    thefts: int = 0
    """Messages that another client takes off the durable, and acks."""
    jumps: int = 0
    """Moves of the durable to the stream's end, by another client."""
    remade: int = 0
    """Durables deleted, and made anew."""
    restores: int = 0
    """Of the database, to what it was at any time before."""
    purges: int = 0


class Durable(NamedTuple):
    """The broker's word: a durable, and where its stream begins."""

    made: int = 0
    at: int = 0
    """The last sequence that was delivered."""
    deliveries: int = 0
    pending: tuple[tuple[int, int], ...] = ()
    """Sequences that are delivered and not acked, each with the number of its last delivery."""
    floor: int = 0
    acked: int = 0
    """The number of the delivery at the floor."""
    purged: int = 0


class Memory(NamedTuple):
    """What PostgreSQL remembers."""

    settled: frozenset[int] = frozenset()
    floor: int = 0
    acked: int | None = 0
    deliveries: int = 0
    made: int = 0
    seen: int = 0
    epoch: int = 0


class Process(NamedTuple):
    """One process: its look at stream and durable, its floor that it writes down, the message it has in hand."""

    at: str = "out"
    before: Memory | None = None
    """What it has read before it asks the broker."""
    heard: Durable | None = None
    held: int = 0
    held_of: int = 0
    """The epoch in which it was delivered."""
    done: bool = False
    """It is settled; without the rule: acked."""
    left: int = 0
    """The floor as this process left it."""
    owed: int = 0


class World(NamedTuple):
    """Database, broker, and the processes that write floors down."""

    memory: Memory
    durable: Durable
    processes: tuple[Process, ...]
    kept: Memory | None = None
    """A backup."""
    stolen: bool = False
    alarm: bool = False
    """A process took a database for an older one that nobody has restored."""
    false: bool = False
    """Another client was told of that there was none."""
    lost: int = 0
    """Up to where it was told that messages are gone."""
    faults: Faults = Faults()


def delivered(durable: Durable, seq: int) -> Durable:
    """Deliver a message, the next one or one that is pending."""
    number = durable.deliveries + 1
    pending = tuple(sorted({**dict(durable.pending), seq: number}.items()))
    return durable._replace(at=max(durable.at, seq), deliveries=number, pending=pending)


def acked(durable: Durable, seq: int) -> Durable:
    """Take an ack; the floor rises as nats-server has it rise."""
    pending = dict(durable.pending)
    if seq not in pending:
        return durable
    number = pending.pop(seq)
    after = durable._replace(pending=tuple(pending.items()))
    if not pending:
        return after._replace(floor=durable.at, acked=durable.deliveries)
    if number != durable.acked + 1:
        return after
    behind = [one for one in after.pending if one[0] > seq]
    if not behind:
        return after._replace(floor=seq, acked=number)
    return after._replace(floor=behind[0][0] - 1, acked=behind[0][1] - 1)


def moved(durable: Durable, seq: int) -> Durable:
    """Have the durable deliver from this message on."""
    return Durable(made=durable.made, at=seq - 1, floor=seq - 1, purged=durable.purged)


@cache
def judged(known: Memory, heard: Durable, last: int, *, restored: bool) -> Judgement:
    """Return what the code that ships makes of what is remembered and what the broker says."""
    there = None if known.floor <= heard.purged else MessageFingerprint(known.floor, b"", "")
    return judge(
        Checkpoint(
            created=SINCE,
            floor=MessageFingerprint(known.floor, b"" if known.floor else None, ""),
            top=MessageFingerprint(),
            seen=known.seen,
            deliveries=known.deliveries,
            durable_created=_made(known.made),
        ),
        Observation(
            created=SINCE,
            first_seq=heard.purged + 1,
            last_seq=last,
            at_floor=there,
            at_top=None,
            ack_floor=heard.floor,
            delivered=heard.at,
            deliveries=heard.deliveries,
            durable_created=_made(heard.made),
        ),
        restored=restored,
    )


def missing(memory: Memory, heard: Durable) -> list[int]:
    """Return what was acked and is not settled, as the audit finds it: by counts first, else from the stream."""
    between = range(memory.floor + 1, heard.floor + 1)
    settled = sum(seq in memory.settled for seq in between)
    if heard.floor <= memory.floor or adds_up(memory.floor, heard.floor, memory.acked, heard.acked, settled):
        return []
    return [seq for seq in between if seq > heard.purged and seq not in memory.settled]


def _made(number: int) -> datetime:
    return SINCE + timedelta(seconds=number)

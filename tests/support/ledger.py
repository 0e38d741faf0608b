"""Judges what is left of a run by the stream, the provider's ledger and the tables alone, with a fold of its own.

`read_ledger` looks, `violations` decides: each line that it returns begins with the invariant that is broken, as
docs/guarantees.md numbers them. It knows the shop's Orders and Spend, and whatever was decided about their events.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from nats.js.errors import NotFoundError
from tests.support.consumer_harness import ConsumerHarness
from tests.support.reference_fold import Decisions, Reckoning, decisions, facts_of, messages, reckon
from tests.support.stub_provider import Seen, StubProvider

Identity = tuple[str, str]


class Settled(msgspec.Struct, frozen=True):
    """One row of a consumer's inbox."""

    seq: int
    state: str
    identity: Identity
    aggregate: str | None
    version: int | None


class ConsumerTables(msgspec.Struct, frozen=True):
    """What the tables and the broker say of one consumer."""

    name: str
    inbox: list[Settled]
    further: list[int]
    """Sequences that are accounted for beside the inbox: duplicates, and what is or was quarantined unread."""
    parked: set[Identity]
    positions: dict[str, int]
    forgotten: int
    """Retention has removed what is settled up to this sequence."""
    unacked: int
    """How many deliveries wait for their ack, or are still to come."""
    acked: int
    """Everything up to this sequence is acked."""


class IntentRow(msgspec.Struct, frozen=True):
    """One side effect, as the outbox has it."""

    seq: int
    key: str
    identity: Identity
    lane: str
    state: str
    body: bytes


class Ledger(msgspec.Struct, frozen=True):
    """Everything there is to judge by."""

    ours: set[int]
    """The sequences of the stream that are the consumers'."""
    consumers: list[ConsumerTables]
    expected: Mapping[str, Reckoning]
    decided: Mapping[str, Decisions]
    orders: list[tuple[Any, ...]]
    spend: list[tuple[Any, ...]]
    intents: list[IntentRow]
    seen: Sequence[Seen] | None
    """The provider's requests; None where no provider was at work."""
    executions: Mapping[str, int]


async def assert_ledger(
    live: ConsumerHarness, poison: Collection[str] = (), stub: StubProvider | None = None
) -> None:
    """Assert that nothing was lost, doubled, invented or left behind."""
    found = violations(await read_ledger(live, poison, stub))
    assert found == [], "\n".join(found)


def violations(ledger: Ledger) -> list[str]:
    """Return what is broken, each line with its invariant first."""
    found: list[str] = []
    for one in ledger.consumers:
        found += (f"{line} ({one.name})" for line in _of_consumer(ledger, one))
    found += _of_rows(ledger)
    found += _of_intents(ledger)
    if ledger.seen is not None:
        found += _of_provider(ledger, ledger.seen)
    return found


def _of_consumer(ledger: Ledger, one: ConsumerTables) -> Iterator[str]:
    known = Counter([row.seq for row in one.inbox if row.state != "quarantined"] + one.further)
    for seq in sorted(seq for seq in ledger.ours - known.keys() if seq > one.forgotten):
        if seq <= one.acked:
            yield f"I17 sequence {seq} was acked before anything of it was committed"
        elif not one.unacked:
            yield f"I1 nothing is known of sequence {seq}, and nothing is to come"
    for seq in sorted(seq for seq, times in known.items() if times > 1):
        yield f"I1 sequence {seq} has {known[seq]} outcomes"
    if not one.forgotten and not one.unacked and sum(known.values()) != len(ledger.ours):
        yield f"I1 {len(ledger.ours)} messages, and {sum(known.values())} outcomes"
    yield from _of_versions(ledger, one)


def _of_versions(ledger: Ledger, one: ConsumerTables) -> Iterator[str]:
    expected, decided = ledger.expected[one.name], ledger.decided[one.name]
    applied: defaultdict[str, list[int]] = defaultdict(list)
    for row in one.inbox:
        if row.state in ("applied", "ignored") and row.aggregate is not None and row.version is not None:
            applied[row.aggregate].append(row.version)
    for aggregate, at in sorted(one.positions.items()):
        over = {version for name, version in decided.stepped_over if name == aggregate}
        versions = applied[aggregate]
        if doubled := sorted(version for version, times in Counter(versions).items() if times > 1):
            yield f"I4 {aggregate} has applied {doubled} more than once"
        if not one.forgotten and (lacking := sorted(set(range(1, at + 1)) - set(versions) - over)):
            yield f"I4 {aggregate} stands at {at} and has not applied {lacking}"
        if beyond := sorted(version for version in versions if version > at):
            yield f"I3 {aggregate} stands at {at}, and {beyond} are applied"
        stands = expected.positions.get(aggregate)
        if stands is not None and at < stands:
            yield f"I5 {aggregate} stands at {at}, and everything up to {stands} is there: it was not drained"
        elif stands is not None and at > stands:
            yield f"I4 {aggregate} stands at {at}, and the stream leads to {stands}"
    rows = {row.identity for row in one.inbox if row.state == "parked"}
    if rows != one.parked:
        yield f"I3 parked by inbox or table alone: {sorted(rows ^ one.parked)}"


def _of_rows(ledger: Ledger) -> Iterator[str]:
    for table, rows, expected in (
        ("orders", ledger.orders, ledger.expected["Orders"].orders),
        ("spend", ledger.spend, ledger.expected["Spend"].spend),
    ):
        if lacking := sorted(set(expected) - set(rows)):
            yield f"I2 {table} lacks {lacking}"
        if strange := sorted(set(rows) - set(expected)):
            yield f"I2 {table} has {strange}"
    one = next(one for one in ledger.consumers if one.name == "Spend")
    if not one.unacked and not ledger.decided["Orders"].stepped_over | ledger.decided["Spend"].stepped_over:
        cents, sums = sum(row[2] for row in ledger.orders), sum(row[2] for row in ledger.spend)
        if cents != sums:
            yield f"I2 orders are worth {cents}, and customers have spent {sums}"


def _of_intents(ledger: Ledger) -> Iterator[str]:
    wanted = ledger.expected["Orders"].receipts
    have = Counter(row.identity for row in ledger.intents)
    applied = {
        row.identity
        for one in ledger.consumers
        if one.name == "Orders"
        for row in one.inbox
        if row.state in ("applied", "erased")
    }
    forgotten = any(one.forgotten for one in ledger.consumers)
    for identity in sorted(wanted - have.keys()):
        if not forgotten:
            yield f"I3 the intent of {identity} is lost"
    for identity in sorted(have.keys() - applied):
        if not forgotten:
            yield f"I6 the intent of {identity} leads back to no applied event"
    for identity in sorted(identity for identity, times in have.items() if times > 1):
        yield f"I7 {identity} has {have[identity]} intents"


def _of_provider(ledger: Ledger, seen: Sequence[Seen]) -> Iterator[str]:
    keys = {row.key: row for row in ledger.intents}
    for key, times in sorted(ledger.executions.items()):
        if times > 1:
            yield f"I7 {key} was executed {times} times"
    for key in sorted({one.key for one in seen} - keys.keys()):
        yield f"I6 the provider was asked for {key}, which is no intent's"
    yield from _of_contents(ledger, seen)
    for row in ledger.intents:
        if row.state == "sent" and not ledger.executions.get(row.key):
            yield f"I7 {row.key} is sent, and the provider has not done it"
        if row.state in ("ready", "leased", "started"):
            yield f"I13 {row.key} is still {row.state}"
    yield from _of_lanes(ledger, seen)


def _of_contents(ledger: Ledger, seen: Sequence[Seen]) -> Iterator[str]:
    bodies: defaultdict[str, set[bytes]] = defaultdict(set)
    asked: defaultdict[bytes, set[str]] = defaultdict(set)
    for one in seen:
        bodies[one.key].add(one.body)
        asked[one.body].add(one.key)
    for key in sorted(key for key, sent in bodies.items() if len(sent) > 1):
        yield f"I8 {key} was sent with {len(bodies[key])} contents"
    of_content = Counter(_canonical(row.body) for row in ledger.intents)
    for body, under in sorted(asked.items()):
        content = _canonical(body)
        intents = of_content[content] if content else 0
        if intents and len(under) > intents:
            yield f"I8 {body!r} was asked for under {len(under)} keys, and is the content of {intents} intents"


def _of_lanes(ledger: Ledger, seen: Sequence[Seen]) -> Iterator[str]:
    first: dict[str, int] = {}
    for number, one in enumerate(seen):
        first.setdefault(one.key, number)
    lanes: defaultdict[str, list[IntentRow]] = defaultdict(list)
    for row in sorted(ledger.intents, key=lambda row: row.seq):
        if row.key in first:
            lanes[row.lane].append(row)
    for lane, rows in sorted(lanes.items()):
        if [row.key for row in rows] != sorted((row.key for row in rows), key=first.__getitem__):
            yield f"I9 {lane} was sent in another order than it was written in"


def _canonical(content: bytes) -> str:
    """Return the same text for the same content, however it is written; none for what is no JSON."""
    try:
        return json.dumps(json.loads(content), sort_keys=True)
    except ValueError:
        return ""


async def read_ledger(
    live: ConsumerHarness, poison: Collection[str] = (), stub: StubProvider | None = None
) -> Ledger:
    """Look at the stream, the provider's ledger and the tables."""
    names = [name for (name,) in await live.fetch("select name from {s}.consumers order by name")]
    decided = {name: await decisions(live, name) for name in names}
    subject = live.stream.subject("order", "")
    stream = [message for message in await messages(live) if message.subject.startswith(subject)]
    streams = {name: facts_of(stream, one.headed) for name, one in decided.items()}
    rows = await live.fetch(
        "select i.seq, i.key, i.source, i.id, coalesce(i.ordering, i.key), coalesce(o.state, i.state), i.body"
        " from {s}.intents i left join {s}.outbox o on o.seq = i.seq order by i.seq"
    )
    return Ledger(
        ours={message.metadata.sequence.stream for message in stream},
        consumers=[await _tables(live, name) for name in names],
        expected={
            name: reckon(streams[name], one, poison if name == "Orders" else ())
            for name, one in decided.items()
        },
        decided=decided,
        orders=await live.rows("orders"),
        spend=await live.rows("spend"),
        intents=[
            IntentRow(seq, key, (source, name), lane, state, bytes(body))
            for seq, key, source, name, lane, state, body in rows
        ],
        seen=None if stub is None else list(stub.seen),
        executions={} if stub is None else dict(stub.executions),
    )


async def _tables(live: ConsumerHarness, name: str) -> ConsumerTables:
    number, durable = (await live.fetch("select number, durable from {s}.consumers where name = $1", name))[0]
    inbox = await live.fetch(
        "select seq, state, source, id, aggregate, version from {s}.inbox where consumer = $1", number
    )
    further = await live.fetch(
        "select seq from {s}.duplicates where consumer = $1 union all"
        " select q.seq from {s}.quarantine q where q.consumer = $1 and not exists (select from {s}.inbox i"
        " where i.consumer = $1 and i.incarnation = q.incarnation and i.seq = q.seq and i.state <> 'quarantined')"
        " and not exists (select from {s}.duplicates d where d.consumer = $1 and d.incarnation = q.incarnation"
        " and d.seq = q.seq)",
        number,
    )
    parked = await live.fetch(
        "select source, id from {s}.parked where consumer = $1 and not discarded", number
    )
    positions = await live.fetch("select aggregate, version from {s}.positions where consumer = $1", number)
    forgotten = await live.value(
        "select coalesce(max(purged), 0) from {s}.floors where consumer = $1", number
    )
    unacked, acked = 0, 0
    try:
        info = await live.nats.jetstream().consumer_info(live.stream.name, durable)
    except NotFoundError:
        unacked = 1  # it has never run
    else:
        unacked = (info.num_pending or 0) + (info.num_ack_pending or 0)
        acked = info.ack_floor.stream_seq if info.ack_floor else 0
    return ConsumerTables(
        name=name,
        inbox=[
            Settled(seq, state, (source, event), aggregate, version)
            for seq, state, source, event, aggregate, version in inbox
        ],
        further=[seq for (seq,) in further],
        parked={(source, event) for source, event in parked},
        positions=dict(positions),
        forgotten=forgotten,
        unacked=unacked,
        acked=acked,
    )

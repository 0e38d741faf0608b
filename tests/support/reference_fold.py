"""An independent reckoning: the stream read by plain means, folded with the recorded decisions in plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from nats.aio.msg import Msg
from tests.support.consumer_harness import ConsumerHarness

Row = tuple[Any, ...]
_NEEDED = {"ce-source", "ce-id", "ce-type", "ce-aggregatetype", "ce-aggregateid", "ce-aggregateversion"}


class Fact(NamedTuple):
    """One message of the stream."""

    seq: int
    identity: tuple[str, str]
    type: str
    aggregate: str
    version: int
    body: bytes


class Decisions(NamedTuple):
    """What was decided about a consumer's events."""

    stepped_over: set[tuple[str, int]]
    discarded: set[tuple[str, str]]
    edited: dict[tuple[str, str], bytes]
    winners: dict[tuple[str, int], tuple[str, str]]
    headed: dict[int, dict[str, str]]
    """By stream sequence: the headers that a message in quarantine was given."""


class Reckoning(NamedTuple):
    """What the tables have to hold."""

    orders: list[Row]
    spend: list[Row]
    positions: dict[str, int]
    receipts: set[tuple[str, str]]
    """The identities of the events that asked for one."""


async def messages(harness: ConsumerHarness) -> list[Msg]:
    """The whole stream, by an ordinary subscription."""
    js = harness.nats.jetstream()
    if not (await js.stream_info(harness.stream.name)).state.messages:
        return []
    subscription = await js.subscribe(harness.stream.subjects, ordered_consumer=True)
    found = []
    while True:
        found.append(await subscription.next_msg(5))
        if not found[-1].metadata.num_pending:
            await subscription.unsubscribe()
            return found


async def facts(harness: ConsumerHarness) -> list[Fact]:
    """All that the stream holds, every message of which is one."""
    return facts_of(await messages(harness), {})


def facts_of(stream: Iterable[Msg], headed: Mapping[int, dict[str, str]]) -> list[Fact]:
    """Return what these messages say, some under other headers; without identity, aggregate and version, nothing."""
    found = []
    for message in stream:
        seq = message.metadata.sequence.stream
        headers = headed.get(seq, message.headers or {})
        if headers.keys() >= _NEEDED:
            found.append(
                Fact(
                    seq,
                    (headers["ce-source"], headers["ce-id"]),
                    headers["ce-type"],
                    f"{headers['ce-aggregatetype']}/{headers['ce-aggregateid']}",
                    int(headers["ce-aggregateversion"]),
                    message.data,
                )
            )
    return found


async def decisions(harness: ConsumerHarness, consumer: str) -> Decisions:
    """Return what was decided about a consumer's events, by its name."""
    made = Decisions(set(), set(), {}, {}, {})
    rows = await harness.fetch(
        "select kind, aggregate, version, coalesce(upto, version), source, id, data, seq, headers from {s}.decisions"
        " where consumer = (select number from {s}.consumers where name = $1) order by number",
        consumer,
    )
    for kind, aggregate, version, upto, source, name, data, seq, head in rows:
        match kind:
            case "edit" if seq is not None:
                made.headed[seq] = dict(
                    line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line
                )
            case "discard" if seq is not None:
                pass  # it is no fact
            case "skip" | "accept_gap" | "baseline" | "erase":
                made.stepped_over.update((aggregate, one) for one in range(version, upto + 1))
            case "discard":
                made.discarded.add((source, name))
            case "edit":
                made.edited[source, name] = data
            case "winner":
                made.winners[aggregate, version] = (source, name)
    return made


def reckon(stream: Iterable[Fact], decided: Decisions, poison: Collection[str] = ()) -> Reckoning:
    """The fold of the shop's events: per aggregate in order of versions, up to what is missing or poisonous."""
    orders: list[Row] = []
    spend: dict[str, list[int]] = {}
    positions: dict[str, int] = {}
    receipts = set()
    for aggregate, events in sorted(_by_version(stream, decided).items()):
        status, cents, history = "new", 0, []
        version = 0
        while (fact := events.get(version + 1)) or (aggregate, version + 1) in decided.stepped_over:
            stepped = (aggregate, version + 1) in decided.stepped_over
            if fact is not None and not stepped and fact.identity not in decided.discarded:
                body = json.loads(decided.edited.get(fact.identity, fact.body))
                match fact.type:
                    case "order.placed":
                        status, cents = "placed", body["cents"]
                        history.append("placed")
                        total = spend.setdefault(body["customer"], [0, 0])
                        total[0] += 1
                        total[1] += body["cents"]
                    case "order.paid":
                        status = "paid"
                        history.append("paid")
                        receipts.add(fact.identity)
                    case "order.noted" if body["text"] in poison:
                        break
                    case "order.noted":
                        history.append(body["text"])
            version += 1
        positions[aggregate] = version
        if history:
            orders.append((aggregate.partition("/")[2], status, cents, json.dumps(history)))
    return Reckoning(
        sorted(orders),
        sorted((customer, *totals) for customer, totals in spend.items()),
        positions,
        receipts,
    )


def _by_version(stream: Iterable[Fact], decided: Decisions) -> Mapping[str, dict[int, Fact]]:
    """Map each version to who holds it: of one identity the first message, of two the recorded winner."""
    seen: set[tuple[str, str]] = set()
    held: defaultdict[str, dict[int, Fact]] = defaultdict(dict)
    for fact in sorted(stream):
        if fact.identity in seen:
            continue
        seen.add(fact.identity)
        held[fact.aggregate]
        winner = decided.winners.get((fact.aggregate, fact.version))
        if winner in (None, fact.identity):
            held[fact.aggregate].setdefault(fact.version, fact)
    return held

"""What the contenders share: settings from the environment, one event loop, the shortest parser of a load's headers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from hashlib import blake2b
from typing import Any, NamedTuple

from projectionist.bench.shop import ORDERS, SCENE
from projectionist.core.cloudevents import DEFAULTS
from projectionist.core.nats import connections
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.settings.settings import Settings, load
from projectionist.ops.cli import event_loop
from projectionist.runner.jetstream.pull_source import JetStreamSource

_ID, _SOURCE, _TYPE, _VERSION = (DEFAULTS[word] for word in ("id", "source", "type", "version"))
ACK_WAIT_S = 30


class PlainRead(NamedTuple):
    """An event of the load, read without a single check."""

    source: str
    id: str
    kind: str
    aggregate: str
    version: int
    data: bytes
    seq: int
    subject: str


def read(arrival: Arrival) -> PlainRead:
    """Take an arrival apart."""
    assert arrival.head is not None
    values = dict([line.split(": ", 1) for line in arrival.head.decode().split("\r\n")[1:-2]])
    order = arrival.subject.rpartition(".")[2]
    seq = int(arrival.reply.split(b".")[-4 if arrival.reply.count(b".") == 8 else -5])
    return PlainRead(
        source=values[_SOURCE],
        id=values[_ID],
        kind=values[_TYPE],
        aggregate=f"/{order}",
        version=int(values[_VERSION]),
        data=arrival.data,
        seq=seq,
        subject=arrival.subject,
    )


def hashed(event: PlainRead) -> bytes:
    """Return the hash the inbox keeps, over the same bytes as the product's."""
    named = f"{len(event.kind)}:{event.kind}1:{len(event.aggregate)}:{event.aggregate}{event.version}:"
    return blake2b(named.encode() + event.data, digest_size=16).digest()


async def source(settings: Settings) -> JetStreamSource:
    """Return the product's own source, on a durable of the name the product would give it."""
    client = await connections.connect(settings.nats, name="bench")
    return JetStreamSource(
        client,
        stream=SCENE.stream,
        durable=SCENE.durable,
        subjects=ORDERS.subjects,
        batch=settings.batch.max_rows,
        ack_wait_s=ACK_WAIT_S,
        contiguous=True,
    )


def main(work: Callable[[Settings], Coroutine[Any, Any, None]]) -> None:
    """Run a contender until it is terminated, on the loop that `projectionist run` takes."""
    event_loop.run(work(load(None)))

"""The wire without a server: what its parser hands on, however the bytes are cut, and what it throws away."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import Client as NatsClient
from nats.protocol.parser import Parser

from projectionist.core.nats import fast_client
from projectionist.core.nats.fast_client import Arrival

HEAD = b"NATS/1.0\r\nce-id: 1\r\n\r\n"


class Sink:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.statuses: list[tuple[str, bytes]] = []
        self.size = 0

    def begin(self) -> tuple[list[Arrival], float]:
        return self.arrivals, 1.0

    def status(self, subject: str, head: bytes) -> None:
        self.statuses.append((subject, head))

    def end(self, size: int) -> None:
        self.size += size


class Others(fast_client.Client):
    """Notes what reaches nats-py."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[bytes] = []
        self.pings = 0

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        self.messages.append(data)

    async def _process_ping(self) -> None:
        self.pings += 1


def frame(sid: int, body: bytes, head: bytes = b"", reply: bytes = b"$JS.ACK.x") -> bytes:
    if head:
        sizes = b"%d %d" % (len(head), len(head) + len(body))
        return b"HMSG s.%d %d %b %b\r\n%b%b\r\n" % (sid, sid, reply, sizes, head, body)
    return b"MSG s.%d %d %b %d\r\n%b\r\n" % (sid, sid, reply, len(body), body)


def feed(client: fast_client.Client, reads: list[bytes]) -> None:
    async def parse() -> None:
        for read in reads:
            await client._ps.parse(read)

    asyncio.run(parse())


def test_this_nats_py_is_the_one_it_knows() -> None:
    assert fast_client.available() == ""


def test_another_parser_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def parse(self: Parser, data: bytes = b"") -> None:
        raise NotImplementedError

    monkeypatch.setattr(Parser, "parse", parse)
    fast_client.available.cache_clear()
    try:
        assert "NotImplementedError" in fast_client.available()
    finally:
        monkeypatch.undo()
        fast_client.available.cache_clear()


def test_another_buffer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep(self: NatsClient, cmd: bytes, priority: bool = False) -> None:
        self.elsewhere = [cmd]  # type: ignore[attr-defined]  # what a later nats-py might do

    monkeypatch.setattr(NatsClient, "_send_command", keep)
    fast_client.available.cache_clear()
    try:
        assert "discarded" in fast_client.available()
    finally:
        monkeypatch.undo()
        fast_client.available.cache_clear()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 7]), st.binary(max_size=80), st.sampled_from([b"", HEAD])),
        max_size=12,
    ),
    st.lists(st.integers(0, 2000), max_size=8),
)
def test_however_the_bytes_are_cut_each_message_arrives_once_and_whole(
    messages: list[tuple[int, bytes, bytes]], cuts: list[int]
) -> None:
    client, sink, other = Others(), Sink(), Sink()
    client._sinks[b"7"], client._sinks[b"2"] = sink, other
    stream = b"".join(frame(*message) + b"PING\r\n" for message in messages)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    feed(client, [stream[a:b] for a, b in pairwise(edges)])
    by_sid = {sid: [(b, h or None) for s, b, h in messages if s == sid] for sid in (1, 2, 7)}
    assert [(a.data, a.head) for a in sink.arrivals] == by_sid[7]
    assert [(a.data, a.head) for a in other.arrivals] == by_sid[2]
    assert client.messages == [body for body, _ in by_sid[1]]
    assert client.pings == len(messages)


def test_a_message_of_many_reads_is_put_together_once() -> None:
    client, sink = Others(), Sink()
    client._sinks[b"7"] = sink
    body = bytes(range(256)) * 40_000
    stream = frame(7, body, HEAD)
    feed(client, [stream[i : i + 32768] for i in range(0, len(stream), 32768)])
    assert [a.data for a in sink.arrivals] == [body]


def test_without_a_reply_it_is_a_status() -> None:
    client, sink = Others(), Sink()
    client._sinks[b"7"] = sink
    feed(client, [frame(7, b"", b"NATS/1.0 408 Timed Out\r\n\r\n", reply=b"")])
    assert sink.statuses == [("s.7", b"NATS/1.0 408 Timed Out\r\n\r\n")]
    assert not sink.arrivals


def test_subjects_that_are_not_utf8_arrive_and_stay_apart() -> None:
    client, sink = Others(), Sink()
    client._sinks[b"7"] = sink
    subjects = [b"s.\xff", b"s.\xfe"]
    feed(client, [b"MSG %b 7 r 1\r\nx\r\n" % subject for subject in subjects])
    assert [a.subject.encode("utf-8", "surrogateescape") for a in sink.arrivals] == subjects


def test_what_begins_before_a_reset_is_forgotten() -> None:
    client, sink = Others(), Sink()
    client._sinks[b"7"] = sink
    feed(client, [frame(7, b"lost")[:-3]])
    client._ps.reset()
    feed(client, [frame(7, b"next")])
    assert [a.data for a in sink.arrivals] == [b"next"]


def test_nothing_is_posted_while_disconnected() -> None:
    client = fast_client.Client()
    assert client.post([b"$JS.ACK.1"]) is False
    assert client.pending_data_size == 0


def test_a_sink_is_told_exactly_the_bytes_that_go_when_its_arrivals_are_taken() -> None:
    client, sink = fast_client.Client(), Sink()
    client._sinks[b"7"] = sink
    feed(client, [frame(7, b"x" * size, head) for size in range(5) for head in (b"", HEAD)])
    assert len(sink.arrivals) == 10
    assert sink.size == sum(map(fast_client.weight, sink.arrivals))

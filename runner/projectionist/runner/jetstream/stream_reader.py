"""Reads a part of a stream in order and without acks; what is lost on the way is noticed and read again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from projectionist.core import clock
from projectionist.core.nats import api_subjects
from projectionist.core.nats.careful_client import denials_of
from projectionist.core.nats.denials import beside
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.testpoints import announce
from projectionist.runner.jetstream import ack_subject, api
from projectionist.runner.jetstream.ack_subject import num_pending
from projectionist.runner.jetstream.api import BrokerError, ConsumerMissing, RequestDenied, StreamMissing
from projectionist.runner.jetstream.pull_buffer import Pulls
from projectionist.runner.jetstream.raw_connection import raw_connection

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.nats.denials import Denial, SubjectDenied

log = logging.getLogger("projectionist.runner")

AT_ONCE = 8_192
BLOCK = 4_096
BLOCK_BYTES = 8 * 1024 * 1024
IDLE_NS = 600_000_000_000
"""After so long without a pull the broker forgets the reader: a build may stand still for a while."""


class ReadTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a reader waits."""

    heartbeat_s: float = 5.0
    retry_s: float = 1.0


USUAL = ReadTimes()
"""The times outside of tests."""


async def scan(
    client: Client,
    stream: str,
    filter_subject: str,
    first: int,
    last: int,
    *,
    headers_only: bool = False,
    times: ReadTimes = USUAL,
) -> AsyncGenerator[list[Arrival], None]:
    """Yield the messages from sequence `first` to `last` that the filter lets through, in order, each once.

    The broker numbers what it sends; a hole in its numbers, a lost connection or a lost reader means reading on
    behind the last good one. Raises StreamMissing if the stream is gone, RequestDenied where it may not be read;
    anything else is waited out.
    """
    if first > last:
        return
    following = follow(
        client,
        stream,
        filter_subject,
        first,
        headers_only=headers_only,
        times=times,
    )
    async with contextlib.aclosing(following) as blocks:
        async for block in blocks:
            taken = _until(block, last)
            if taken:
                yield taken
            if len(taken) < len(block) or not block or sequence(block[-1]) >= last:
                return
            if not num_pending(block[-1].reply):
                return


async def follow(
    client: Client,
    stream: str,
    filter_subject: str,
    first: int,
    *,
    headers_only: bool = False,
    times: ReadTimes = USUAL,
) -> AsyncGenerator[list[Arrival], None]:
    """Yield the messages from sequence `first` on, in order, each once, as they come; an empty block where none is
    left.

    It never ends by itself; `aclosing` it.
    """
    logged = ""
    while True:
        reader = _Reader(
            client, stream, filter_subject, first, headers_only=headers_only, heartbeat_s=times.heartbeat_s
        )
        try:
            await reader.open()
            if reader.exhausted:
                yield []
            async for block in reader.blocks():
                logged = ""
                if block:
                    first = sequence(block[-1]) + 1
                yield block
        except (StreamMissing, RequestDenied):
            raise
        except BrokerError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("reading stream %s: %s", stream, error)
            await anyio.sleep(times.retry_s)
        finally:
            with anyio.CancelScope(shield=True):
                await reader.close()
        announce("scan.again")


def sequence(arrival: Arrival) -> int:
    """Return the stream sequence of an arrival."""
    return ack_subject.stream_sequence(arrival.reply)


def as_arrival(message: api.StoredMessage, stream: str) -> Arrival:
    """Return a stored message in the shape of an arrival."""
    reply = f"$JS.ACK.{stream}.projectionist.1.{message.seq}.1.0.0".encode()
    return Arrival(subject=message.subject, reply=reply, head=message.hdrs, data=message.data, received=0.0)


async def fetch(client: Client, stream: str, filter_subject: str, seqs: Iterable[int]) -> dict[int, Arrival]:
    """Return the messages at these sequences: neighbours in one go, the rest one by one. What is gone is missing."""
    found: dict[int, Arrival] = {}
    alone: list[int] = []
    for run in _runs(sorted(seqs)):
        if len(run) < _WORTH_A_SCAN:
            alone += run
            continue
        wanted = set(run)
        async for block in scan(client, stream, filter_subject, run[0], run[-1]):
            found.update((seq, one) for one in block if (seq := sequence(one)) in wanted)
    for start in range(0, len(alone), _AT_A_TIME):
        await _get(client, stream, alone[start : start + _AT_A_TIME], found)
    return found


_WORTH_A_SCAN, _NEIGHBOURS, _AT_A_TIME = 64, 16, 64


async def _get(client: Client, stream: str, seqs: list[int], found: dict[int, Arrival]) -> None:
    """Ask for each message, again where the broker does not answer, as `scan` does."""
    missed: dict[int, BrokerError] = {}

    async def one(seq: int) -> None:
        try:
            message = await api.message(client, stream, seq)
        except StreamMissing:
            raise
        except BrokerError as error:
            missed[seq] = error
        else:
            if message is not None:
                found[seq] = as_arrival(message, stream)

    while seqs:
        async with anyio.create_task_group() as tasks:
            for seq in seqs:
                tasks.start_soon(one, seq)
        if missed:
            log.warning("reading stream %s: %s", stream, next(iter(missed.values())))
            announce("scan.unanswered")
            await anyio.sleep(USUAL.retry_s)
        seqs = list(missed)
        missed.clear()


def _runs(seqs: list[int]) -> list[list[int]]:
    """Return sequences in groups that are read best in one go."""
    runs: list[list[int]] = []
    for seq in seqs:
        if runs and seq - runs[-1][-1] <= _NEIGHBOURS:
            runs[-1].append(seq)
        else:
            runs.append([seq])
    return runs


class _Reader:
    """One consumer without acks, from its creation to the first doubt about what it sent."""

    def __init__(
        self,
        client: Client,
        stream: str,
        filter_subject: str,
        first: int,
        *,
        headers_only: bool,
        heartbeat_s: float,
    ) -> None:
        self._heartbeat_s = heartbeat_s
        self._client, self._stream = client, stream
        self._name = f"projectionist-scan-{token_hex(8)}"
        self._config: dict[str, Any] = {
            "name": self._name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": first,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": IDLE_NS,
            "mem_storage": True,
            "filter_subject": filter_subject,
            "headers_only": headers_only,
        }
        inbox = client.new_inbox()
        self._inbox = inbox
        self._raw = raw_connection(client)
        self._next = api_subjects.consumer_next(stream, self._name)
        self._pulls = Pulls(self._raw, self._next, inbox, at_once=AT_ONCE, heartbeat_s=heartbeat_s)
        self._denied: SubjectDenied | None = None
        self._end_hearing: Callable[[], None] | None = None
        self._stop: Callable[[], Awaitable[None]] | None = None
        self._connection = -1
        self._number = 0
        self.exhausted = False
        """Whether there was nothing more to read, as far as this reader knows."""

    async def open(self) -> None:
        """Create the consumer and begin to pull."""
        self._connection = self._client.stats["reconnects"]
        created = await api.put_consumer(self._client, self._stream, self._config, action="create")
        self.exhausted = created.num_pending == 0
        about = (self._next, beside(self._inbox))
        self._end_hearing = denials_of(self._client).listen(about, self._hear_denial)
        self._stop = await self._raw.listen(f"{self._inbox}.*", self._pulls)
        self._pulls.start(self._client.max_payload)

    def _hear_denial(self, denial: Denial, pattern: str) -> None:
        self._denied = denial.error(pattern)
        self._pulls.suspect(self._denied.message)

    async def blocks(self) -> AsyncIterator[list[Arrival]]:
        """Yield what arrives, as long as nothing is missing in between; an empty block where nothing more is there."""
        quiet = clock.now()
        while True:
            if self._denied is not None:
                raise RequestDenied(self._denied.message, remedy=self._denied.remedy)
            if self._client.stats["reconnects"] != self._connection or self._pulls.doubt:
                return
            if not self._pulls.arrivals:
                await self._pulls.wait(1, self._heartbeat_s)
                if not self._pulls.arrivals and clock.now() - quiet > self._heartbeat_s:
                    await self._look()
                    quiet = clock.now()
                    if self.exhausted:
                        yield []
                continue
            block = self._pulls.cut(BLOCK, BLOCK_BYTES)
            good = self._unbroken(block)
            if good:
                quiet = clock.now()
                yield block[:good]
            if good < len(block):
                announce("scan.hole")
                return

    async def _look(self) -> None:
        """Ask, where nothing has come for a while, whether the consumer is still there and has more for us."""
        try:
            found = await api.consumer(self._client, self._stream, self._name)
        except ConsumerMissing as error:
            raise BrokerError("its reader is gone") from error
        self.exhausted = found.num_pending == 0 and not self._pulls.arrivals

    def _unbroken(self, block: list[Arrival]) -> int:
        """Return how many of the block follow on what came before without a hole."""
        if _number(block[0]) == self._number + 1 and _number(block[-1]) == self._number + len(block):
            self._number += len(block)
            return len(block)
        for at, arrival in enumerate(block):
            if _number(arrival) != self._number + 1:
                return at
            self._number += 1
        return len(block)

    async def close(self) -> None:
        """Stop, and have the broker forget the consumer."""
        self._pulls.stop()
        if self._end_hearing is not None:
            self._end_hearing()
        if self._stop is not None:
            await self._stop()
        if self._client.is_connected:
            with contextlib.suppress(BrokerError):  # the broker forgets it by itself, only later
                await api.drop_consumer(self._client, self._stream, self._name)


def _number(arrival: Arrival) -> int:
    words = arrival.reply.split(b".")
    return int(words[6 if len(words) == 9 else 8])


def _until(block: list[Arrival], last: int) -> list[Arrival]:
    if not block or sequence(block[-1]) <= last:
        return block
    return [arrival for arrival in block if sequence(arrival) <= last]

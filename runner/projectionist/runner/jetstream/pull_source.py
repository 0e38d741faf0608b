"""Where Deliveries come from: a durable of JetStream, pulled by a loop of our own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from nats.errors import Error as NatsError

from projectionist.core import clock
from projectionist.core.nats import api_subjects, durable_age
from projectionist.core.nats.careful_client import denials_of
from projectionist.core.nats.denials import beside
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.testpoints import announce
from projectionist.runner.jetstream import api, durable
from projectionist.runner.jetstream.ack_subject import num_pending
from projectionist.runner.jetstream.api import (
    BrokerError,
    ConsumerMissing,
    RequestDenied,
    StreamInfo,
    StreamMissing,
)
from projectionist.runner.jetstream.durable import DurableSpec
from projectionist.runner.jetstream.durable_owner import DurableNotOurs
from projectionist.runner.jetstream.pull_buffer import Pulls
from projectionist.runner.jetstream.raw_connection import raw_connection

if TYPE_CHECKING:
    from datetime import datetime

    from nats.aio.client import Client

    from projectionist.core.nats.denials import Denial, SubjectDenied
    from projectionist.projections.compiled.subject_pattern import Subjects
    from projectionist.runner.jetstream.durable_owner import DurableMark

log = logging.getLogger("projectionist.runner")

Judge = Callable[[], Awaitable[bool]]

ACK_SHARE = 0.8
"""The share of the ack wait after which an ack is not sent any more."""
FLUSH_S = 2


class SourceLost(BrokerError):
    """The durable or its stream is not the one that was opened. Judge the stream again, then open."""


class BrokerProgress(msgspec.Struct, frozen=True):
    """Says how far the broker is."""

    last_seq: int
    num_pending: int
    num_ack_pending: int
    ack_floor: int


class Source(Protocol):
    """At-least-once arrivals in stream order but for redeliveries, each acked by whoever has settled it."""

    async def open(self) -> StreamInfo:
        """Create or check what is read from, and begin; StreamMissing while there is nothing to read."""

    async def take(self, most: int, most_bytes: int, linger_s: float) -> list[Arrival]:
        """Return at least one arrival; more, up to the limits, if the broker has more and sends it in time."""

    def ack(self, arrivals: Sequence[Arrival]) -> int:
        """Ack those whose deadline stands; how many that were."""

    def in_progress(self, arrivals: Sequence[Arrival]) -> int:
        """Begin the ack wait of those anew whose deadline stands, and of what waits to be taken; how many that were."""

    def hold(self, *, held: bool) -> None:
        """Ask the broker for nothing more while held; what is on its way still comes."""

    def give_back(self, arrivals: Sequence[Arrival]) -> int:
        """Have the broker deliver those at once again, to whoever asks; how many that were."""

    async def pending(self) -> BrokerProgress:
        """Return how far the broker is."""

    async def close(self) -> None:
        """Stop, and give back at once what was not taken."""


class JetStreamSource:
    """A durable pull consumer, created or checked by `open`.

    What was received over a connection is acked over that connection or not at all: after a reconnect the
    stream may be another one. `take` raises SourceLost if it is, and BrokerError once the client is closed.
    """

    def __init__(
        self,
        client: Client,
        *,
        stream: str,
        durable: str,
        subjects: Subjects,
        batch: int,
        ack_wait_s: float,
        contiguous: bool,
        heartbeat_s: float = 5,
        judge: Judge | None = None,
        durable_mark: DurableMark | None = None,
    ) -> None:
        """Pull nothing yet; `judge` looks at stream and durable before anything is pulled, again after every reconnect;
        it may refuse them by raising, and says whether it has moved the durable. `durable_mark` says whose the durable
        has to be."""
        self._client = client
        self._judge = judge
        self._raw = raw_connection(client)
        self._wanted = DurableSpec(
            stream=stream,
            name=durable,
            subjects=subjects,
            contiguous=contiguous,
            batch=batch,
            ack_wait_s=ack_wait_s,
            durable_mark=durable_mark,
        )
        self._inbox = client.new_inbox()
        self._next = api_subjects.consumer_next(stream, durable)
        self._pulls = Pulls(
            self._raw,
            self._next,
            self._inbox,
            at_once=2 * batch,
            heartbeat_s=heartbeat_s,
        )
        self._stop_listening: Callable[[], Awaitable[None]] | None = None
        self._connection, self._opened = -1, 0.0
        self._identity: tuple[datetime, datetime] | None = None
        self._drift: list[str] = []
        self._paused = False
        self._denied: SubjectDenied | None = None
        self._end_hearing: Callable[[], None] | None = None

    @property
    def durable(self) -> str:
        """Return the durable's name."""
        return self._wanted.name

    async def open(self) -> StreamInfo:
        """Create or check the durable and begin to pull; may be called again after SourceLost."""
        await self._stop()
        connection = self._client.stats["reconnects"]
        stream, found = await durable.prepare(self._client, self._wanted)
        if self._judge is not None and await self._judge():
            stream, found = await durable.prepare(self._client, self._wanted)
        self._identity = stream.created, found.created
        self._connection, self._opened = connection, clock.now()
        acks = api_subjects.acks(self._wanted.stream, self._wanted.name)
        self._end_hearing = denials_of(self._client).listen(
            (self._next, *acks, beside(self._inbox)), self._hear_denial
        )
        self._stop_listening = await self._raw.listen(f"{self._inbox}.*", self._pulls)
        self._pulls.start(self._client.max_payload)
        with contextlib.suppress(NatsError, TimeoutError, OSError):  # it is looked after like any connection
            await self._raw.flush(FLUSH_S)
        self._refuse_denied()
        announce("source.open")
        return stream

    async def take(self, most: int, most_bytes: int, linger_s: float) -> list[Arrival]:
        """Return at least one arrival. A lone one is returned at once; `linger_s` is spent only if the broker said
        that it has more for us, and that is on order."""
        pulls = self._pulls
        while True:
            if not (await self._assured() and pulls.arrivals):
                await pulls.wait(1)
                continue
            enough = min(most, len(pulls.arrivals) + min(pulls.due, num_pending(pulls.arrivals[-1].reply)))
            if enough > len(pulls.arrivals) and pulls.size < most_bytes:
                await pulls.wait(enough, linger_s)
                if self._client.stats["reconnects"] != self._connection:
                    continue
            return pulls.cut(most, most_bytes)

    def ack(self, arrivals: Sequence[Arrival]) -> int:
        """Ack those whose deadline stands and whose connection is still the same; how many that were."""
        return self._answer(self._unexpired(arrivals), b"")

    def in_progress(self, arrivals: Sequence[Arrival]) -> int:
        """Begin the ack wait of those anew whose deadline stands, and of what waits to be taken; how many that were."""
        unexpired = self._unexpired([*arrivals, *self._pulls.arrivals])
        now = clock.now()
        answered = self._answer(unexpired, b"+WPI")
        for arrival in unexpired[:answered]:
            arrival.received = now
        return answered

    def hold(self, *, held: bool) -> None:
        """Ask the broker for nothing more while held; what is on its way still comes."""
        self._pulls.held = held

    def give_back(self, arrivals: Sequence[Arrival]) -> int:
        """Have the broker deliver those at once again, to whoever asks; how many that were."""
        return self._answer(self._unexpired(arrivals), b"-NAK")

    async def pending(self) -> BrokerProgress:
        """Return how far the broker is. What others have changed about the durable is noticed by the way."""
        found = await api.consumer(self._client, self._wanted.stream, self._wanted.name)
        stream = await api.stream(self._client, self._wanted.stream)
        await self._look_over(found)
        return BrokerProgress(
            stream.state.last_seq, found.num_pending, found.num_ack_pending, found.ack_floor.stream_seq
        )

    async def _look_over(self, found: api.DurableInfo) -> None:
        try:
            self._refuse(found)
        except (durable.DurableUnfit, DurableNotOurs, SourceLost) as error:
            if not self._pulls.doubt:
                self._pulls.suspect(error.message)
            return
        if durable.refiltered(self._wanted, found):
            found = await durable.update(self._client, self._wanted, found)
            announce("durable.filtered")
        if durable.limited(found):
            found = await durable.update(self._client, self._wanted, found)
            announce("durable.freed")
        self._log_pause(found)
        drift = durable.drifted(found, durable.configuration(self._wanted))
        if drift and drift != self._drift:
            log.warning(
                "durable %s has changed: %s; another process has other settings, or a person has edited it: "
                "the process that starts last sets it to its own",
                self._wanted.name,
                ", ".join(drift),
            )
            announce("durable.drifted")
        self._drift = drift

    def _log_pause(self, found: api.DurableInfo) -> None:
        """Log a pause of the durable, and its end: there may be a reason for it."""
        if found.paused is self._paused:
            return
        self._paused = found.paused
        announce("durable.paused" if found.paused else "durable.resumed")
        if found.paused:
            log.warning(
                "durable %s is paused until %s, so that nothing is delivered: `nats consumer resume %s %s` ends it",
                self._wanted.name,
                found.config.pause_until,
                self._wanted.stream,
                self._wanted.name,
            )
        else:
            log.info("durable %s is paused no more", self._wanted.name)

    async def close(self) -> None:
        """Stop, and give back at once what was not taken."""
        left = await self._stop()
        if self.give_back(left):
            with contextlib.suppress(
                NatsError, TimeoutError, OSError
            ):  # then it comes again after its ack wait
                await self._raw.flush(FLUSH_S)

    def _hear_denial(self, denial: Denial, pattern: str) -> None:
        self._denied = denial.error(pattern)
        self._pulls.suspect(self._denied.message)

    def _refuse_denied(self) -> None:
        """Raise if the broker does not let us order messages, be sent any, or ack them: they would come for ever."""
        if self._denied is not None:
            raise RequestDenied(self._denied.message, remedy=self._denied.remedy)

    async def _stop(self) -> list[Arrival]:
        self._pulls.stop()
        if self._end_hearing is not None:
            self._end_hearing()
            self._end_hearing, self._denied = None, None
        if self._stop_listening is not None:
            stop, self._stop_listening = self._stop_listening, None
            await stop()
        return self._pulls.rest()

    async def _assured(self) -> bool:
        """Go on pulling after a reconnect or a doubt, if stream and durable are those that were opened.

        False while that is not known: what has come since is not handed out.
        """
        client, pulls = self._client, self._pulls
        self._refuse_denied()
        if client.is_closed:
            raise BrokerError(
                f"The connection to the broker is closed: {client.last_error or 'by ourselves'}"
            )
        connection = client.stats["reconnects"]
        same = connection == self._connection
        if (same and not pulls.doubt) or not client.is_connected or clock.now() < pulls.not_before:
            return same
        try:
            stream = await api.stream(client, self._wanted.stream)
            found = await api.consumer(client, self._wanted.stream, self._wanted.name)
        except (StreamMissing, ConsumerMissing) as error:
            raise SourceLost(error.message) from error
        except BrokerError as error:
            pulls.suspect(error.message)
            return same
        assert self._identity is not None, "it was opened"
        stream_created, durable_created = self._identity
        if stream.created != stream_created or not durable_age.is_same(found.created, durable_created):
            raise SourceLost(f"Stream {self._wanted.stream} or its durable {self._wanted.name} was made anew")
        self._refuse(found)
        if self._judge is not None and not same:
            await self._judge()
        self._connection = connection
        pulls.renew()
        announce("source.resumed")
        return True

    def _refuse(self, found: api.DurableInfo) -> None:
        """Raise where the durable must not be read from as it is now."""
        durable.check_durable(self._wanted, found)
        if found.config.passes_over(self._wanted.subjects.filter):
            raise SourceLost(
                f"Durable {self._wanted.name} was made to let only {', '.join(found.config.filters)} through"
            )

    def _unexpired(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        if self._client.stats["reconnects"] != self._connection:
            return []
        earliest = max(self._opened, clock.now() - ACK_SHARE * self._wanted.ack_wait_s)
        here = self._connection
        return [one for one in arrivals if one.received >= earliest and one.connection == here]

    def _answer(self, arrivals: Sequence[Arrival], word: bytes) -> int:
        if not arrivals or not self._raw.post([arrival.reply for arrival in arrivals], word):
            return 0
        return len(arrivals)

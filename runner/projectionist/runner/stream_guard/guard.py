"""Judges a consumer's stream whenever it is opened, and writes down where it stands while it is read.

What PostgreSQL and the broker remember may part ways: either may be restored, fail over, or be tampered with. Before
anything is read both are compared; what can be mended is mended by reading again, the rest waits for a decision.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.pooled_session import is_lent
from projectionist.core.postgres.statements import Statements
from projectionist.core.states import IncidentKind
from projectionist.core.testpoints import announce
from projectionist.runner.batch.consumer import Rejoin
from projectionist.runner.consumers.registry import INSTANCE
from projectionist.runner.stream_guard import observe
from projectionist.runner.stream_guard.ack_audit import AckAudit
from projectionist.runner.stream_guard.checkpoint_store import Floors
from projectionist.runner.stream_guard.remedies import remedy
from projectionist.runner.stream_guard.verdict import Checkpoint, Judgement, judge

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.batch.context import BatchContext
    from projectionist.runner.batch.shared_pool import SharedPool
    from projectionist.runner.jetstream.api import DurableInfo as Durable
    from projectionist.runner.jetstream.api import StreamInfo
    from projectionist.runner.stream_guard.ack_audit import ProvenFloor
    from projectionist.runner.stream_guard.checkpoint_store import Remembered

log = logging.getLogger("projectionist.runner")

_ACKED_ELSEWHERE = "another client has acked what was never settled here"


class Halted(ProjectionistError):
    """The stream is not the one that was read so far. Nothing of it is applied until an operator has decided."""


class StreamGuard:
    """Judges and remembers the stream of one consumer, for one process."""

    def __init__(
        self, definition: ConsumerDefinition, durable: str, client: Client, access: SharedPool, schema: str
    ) -> None:
        self._name, self._stream = definition.name, definition.stream
        self._filter = definition.subjects.filter
        self._durable = durable
        self._client = client
        self._access = access
        self._sql = Statements("projectionist.runner", schema)
        self._floors = Floors(schema, definition.name, durable, definition.stream)
        self._account = AckAudit(schema, client, (self._stream, durable), definition.subjects, access.lend)
        self._context: BatchContext | None = None
        self._left: Remembered | None = None
        """The database as this process left it."""
        self._trusted = False
        """Whether the database is known to be the one this process has written to since it began."""
        self._owed: int | None = None
        """The broker's floor that the database does not know of. Not to be written down before it was read again."""

    # -- judge ---------------------------------------------------------------------------------------------------

    async def check(self) -> bool:
        """Judge both before anything is read; whether the durable was moved. Raises Halted."""
        remembered = await self._read()  # first: peers remember more while we ask the broker
        stream, durable = await observe.read_broker(self._client, self._stream, self._durable)
        if remembered.known is None:
            remembered = await self._begin(remembered, stream, durable)
        assert remembered.known is not None
        older = self._is_older(remembered)
        if older and self._trusted:
            raise self._distrust()
        seen = await observe.observe_stream(self._client, self._stream, stream, durable, remembered.known)
        judgement = judge(remembered.known, seen, restored=older or not self._trusted)
        if not older and (judgement.go_to is None or (judgement.doubt and remembered.peers)):
            judgement = await self._accounted(remembered, durable, judgement)
        self._left, self._owed = remembered, None
        if judgement.fact is not None:
            await self._report(remembered, seen.last_seq, judgement)
        if judgement.doubt and remembered.peers and not older:
            self._owed = seen.ack_floor
            return False
        if judgement.go_to is not None:
            await self._go(remembered, durable, judgement, judgement.go_to)
            return True
        if older:
            await self._accept(durable)
        return False

    async def arrive(self, connection: Connection) -> None:
        """Look at the database behind a new connection of a process that has joined; raises Rejoin if it is older."""
        runner = None if self._context is None else self._context.consumer.runner
        # What a pooler lends is somebody else's in a moment, who must not be ended in our place.
        own = not is_lent(connection)
        here = await connection.fetchval(self._sql["record_backend_session"], runner, INSTANCE, own)
        if here is None or self._is_older(await self._read(connection)):
            raise self._distrust()

    def joined(self, context: BatchContext) -> None:
        """Take note that this process has joined the consumer."""
        self._context, self._trusted = context, True

    def _is_older(self, found: Remembered) -> bool:
        """Return whether the database lacks what this process left in it, or tells itself that it is another."""
        timelines = {found.timeline, found.timeline_then or found.timeline}
        if self._left is not None:
            timelines.add(self._left.timeline)
        return len(timelines) > 1 or not found.witnessed or found.is_behind(self._left)

    def _distrust(self, why: str = "PostgreSQL was restored or has failed over") -> Rejoin:
        self._trusted = False
        return Rejoin(f"{why}: what it remembers is compared with the broker")

    async def _read(self, connection: Connection | None = None) -> Remembered:
        runner = None if self._context is None else self._context.consumer.runner
        witness = None if self._context is None else self._context.witness
        if connection is not None:
            return await self._floors.read(connection, self._access.peers.silence_s, runner, witness)
        async with self._access.lend() as lent:
            return await self._floors.read(lent, self._access.peers.silence_s, runner, witness)

    async def _begin(self, before: Remembered, stream: StreamInfo, durable: Durable) -> Remembered:
        fresh = observe.unread(stream, durable.created)
        async with self._access.alone(before.number) as connection:
            await self._floors.begin(connection, before.number, fresh)
        return await self._read()

    async def _report(self, remembered: Remembered, seq: int, judgement: Judgement) -> None:
        assert judgement.fact is not None
        step = remedy(judgement.fact, self._name)
        async with self._access.lend() as connection:
            await self._floors.report(connection, remembered, judgement, seq, f"{judgement.text}. {step}")
            if not judgement.halted:
                await self._floors.pass_over(connection, remembered.number, judgement.gone)
        announce(f"stream_guard.{judgement.fact}")
        if judgement.halted:
            raise Halted(f"stream {self._stream!r}: {judgement.text}", remedy=step)
        log.warning("%s: %s. %s", self._name, judgement.text, step)

    async def _accounted(self, remembered: Remembered, durable: Durable, judgement: Judgement) -> Judgement:
        """Add a way back where another client has acked what was never settled here."""
        proof = await self._account.prove(remembered.number, durable)
        if not proof.missing or judgement.halted:
            return judgement
        await self._report_missing(remembered, proof)
        return msgspec.structs.replace(judgement, go_to=proof.missing[0], why=_ACKED_ELSEWHERE, doubt=False)

    async def _report_missing(self, remembered: Remembered, proof: ProvenFloor) -> None:
        first, last = proof.missing[0], proof.missing[-1]
        text = (
            f"{len(proof.missing)} messages from {first} to {last} were acked and never settled here; they are read "
            f"again. Another client acks on durable {self._durable}, or this database is older than those acks"
        )
        fact = Judgement(fact=IncidentKind.ACKED_ELSEWHERE)
        async with self._access.lend() as connection:
            await self._floors.report(connection, remembered, fact, first, text)
        log.warning("%s: %s", self._name, text)
        announce(f"stream_guard.{IncidentKind.ACKED_ELSEWHERE}")

    # -- mend ----------------------------------------------------------------------------------------------------

    async def _go(self, remembered: Remembered, durable: Durable, judgement: Judgement, seq: int) -> None:
        """Have the durable deliver from `seq` on, while no batch is open; what is settled already is known."""
        async with self._access.alone(remembered.number) as connection:
            if (await self._read(connection)).epoch != remembered.epoch:
                raise Rejoin("another process has taken over meanwhile")
            back = seq <= durable.ack_floor.stream_seq
            stays = await observe.seek(self._client, self._stream, self._durable, seq, back=back)
            await self._floors.back(connection, remembered.number, durable.created if stays else None)
            await connection.execute(
                self._sql["insert_audit_entry"],
                remembered.number,
                "rewind",
                f"to {seq}",
                "projectionist",
                judgement.why,
                "{}",
            )
        self._left = await self._read()
        log.warning("%s: goes on from message %d: %s", self._name, seq, judgement.why)
        announce("stream_guard.moved")

    async def _accept(self, durable: Durable) -> None:
        """Accept an older or another database, which lacks nothing."""
        async with self._access.lend() as connection:
            await self._floors.accept(connection, (await self._read(connection)).number, durable.created)
        self._left = await self._read()

    # -- remember ------------------------------------------------------------------------------------------------

    async def record(self) -> None:
        """Write down where stream and durable stand; raises Rejoin where they or the database must be judged again."""
        before = await self._read()  # its epoch is from before the broker was asked
        if before.known is None or self._is_older(before):
            raise self._distrust()
        if self._owed is not None and not self._is_paid(before, before.known):
            return
        stream, durable = await observe.read_broker(self._client, self._stream, self._durable)
        if durable.config.passes_over(self._filter):
            raise Rejoin(
                "the durable was made to let less through: its floor says nothing of what it passed over"
            )
        seen = observe.seen(stream, durable, before.known.floor, before.known.top)
        judgement = judge(before.known, seen, restored=False)
        if judgement.halted or judgement.go_to is not None:
            raise Rejoin(judgement.text or judgement.why)
        if judgement.fact is not None:
            await self._report(before, seen.last_seq, judgement)
        proof = await self._account.prove(before.number, durable)
        if proof.missing:
            await self._report_missing(before, proof)
            raise Rejoin(_ACKED_ELSEWHERE)
        now = await observe.remembered(self._client, self._stream, stream, durable, before.known, proof)
        async with self._access.lend() as connection:
            await self._floors.write(connection, before, now)
        self._left = await self._read()
        announce("stream_guard.recorded")

    def _is_paid(self, found: Remembered, known: Checkpoint) -> bool:
        """Return whether the process that was so far has written it down; if none is left that could, it is for us."""
        if known.floor.seq >= (self._owed or 0):
            self._owed = None
            return True
        if not found.peers:
            raise self._distrust("the processes that could have known how far they were are gone")
        return False

"""The statements of the relay, a method a file in `sql`. No policy here: the caller decides an intent's next state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import msgspec
from opentelemetry.trace import Span

from projectionist.core import clock
from projectionist.core.circuit_breaker import Circuit, State
from projectionist.core.cloudevents import trace_context
from projectionist.core.postgres.leases import Leases
from projectionist.core.states import IntentState
from projectionist.core.telemetry import baggage
from projectionist.outbox.intents.keys import body_hash
from projectionist.outbox.providers.base import Request
from projectionist.outbox.providers.reply import Outcome

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.outbox.providers.reply import Reply
    from projectionist.outbox.relay.database_link import DatabaseLink
    from projectionist.outbox.relay.state_machine import Transition

FORGET_S = 86_400.0
"""How long a destination that is well is remembered."""
FORGOTTEN_AT_ONCE = 1_000
"""So many are forgotten every few seconds: a statement's locks stay few."""
OPEN_S = 8.0
"""An attempt begins within so many seconds after its lease was asked for, or not at all."""

SLACK_S = 4.0
"""How much longer than its slowest attempt a lease lasts, for two clocks that run at different rates."""


NOTICED_S = 60.0
"""Relays that work notice within so many seconds that the database's clock has gone back."""


def lease_of(timeout_s: float) -> float:
    """Return the seconds that a lease lasts whose attempts take so long at most."""
    return OPEN_S + timeout_s + SLACK_S


class LeasedIntent(msgspec.Struct):
    """An intent that this relay alone may act on, until its lease is over."""

    seq: int
    token: UUID
    state: IntentState
    """LEASED: to be sent. UNKNOWN: it may have been sent, by a relay that recorded no reply."""
    attempt: int
    spent: int
    blocks: bool
    since_first_s: float | None
    at: float
    """The time of the lease, on `clock.now()`."""
    rendered: bool
    """`request.wire` was frozen at the first attempt, or when it was recorded. If not, it is made now."""
    circuit: Circuit
    request: Request
    lookup_hint: str | None = None
    """The provider's lookup hint, noted before a first attempt."""
    first_started: datetime | None = None
    wire_hash: bytes | None = None
    doubted: bool = False
    """The outcome of an earlier attempt is still unknown."""
    span: Span | None = None
    """Of the attempt that is being made, where its trace is sampled."""

    def since_first(self) -> float | None:
        """Return the seconds since bytes may have left for the first time."""
        return None if self.since_first_s is None else self.since_first_s + clock.now() - self.at

    def to_freeze(self) -> tuple[bytes | None, bytes, str | None]:
        """Return wire bytes (None: they are the body), their hash and the hint; the bytes are of no use where they are
        stored."""
        wire = self.request.wire
        if self.rendered:
            return None, b"", self.lookup_hint
        return None if wire == self.request.body else wire, body_hash(wire), self.lookup_hint


class LeaseResult(msgspec.Struct):
    """The outcome of one claim. `after`: the lane to go on behind, "" at the end of all lanes; `found`: how many
    could be leased, by this relay or by one that was quicker; `others`: how many of them for destinations outside the
    crowd; `now`: the database's time; `lapsed`: those of `leased` whose lease before had run out, without a word of
    whoever had it."""

    leased: list[LeasedIntent]
    after: str
    found: int
    others: int
    now: float
    gone_s: float
    """By how much the database's clock has gone back since the last claim."""
    lapsed: Sequence[LeasedIntent] = ()


class Settled(msgspec.Struct):
    """One reply, and the next state of its intent.

    `tried`: it is the end of an attempt, and goes into its history. `heard`: the destination itself has answered,
    or failed to, so that its circuit has to know.
    """

    leased: LeasedIntent
    reply: Reply
    next: Transition
    tried: bool = True
    heard: bool = True

    def is_plain(self) -> bool:
        """Return True for a success at the first attempt, as nearly all are."""
        reply = self.reply
        sent = reply.outcome is Outcome.SENT and self.tried and self.leased.attempt == 1
        return sent and not (reply.reason or reply.replayed)


class IntentStore:
    """Reads and writes the intents of a relay. `allowed`: members of baggage that its calls may bear."""

    def __init__(self, link: DatabaseLink, relay: str, allowed: Collection[str] = ()) -> None:
        self._link = link
        self._relay = relay
        self._allowed = frozenset(allowed)
        self._theirs = clock.Other()

    async def lease(
        self,
        provider: str,
        *,
        after: str,
        most: int,
        steps: int,
        timeout_s: float,
        resting: Sequence[str] = (),
        crowd: Sequence[str] = (),
        look: int = 0,
        others_only: bool = False,
    ) -> LeaseResult:
        """Lease up to `most` heads behind the lane `after`, looking at up to `steps` lanes.

        Those for other destinations than the crowd come first; for them it goes on for `look` lanes. `others_only`:
        the crowd gets nothing of what they leave.
        """
        token, asked = uuid4(), clock.now()
        lease_s = lease_of(timeout_s)
        async with self._link.lent() as connection:
            rows = await connection.fetch(
                self._link.sql["lease_intents"],
                provider,
                after,
                most,
                steps,
                token,
                lease_s,
                resting,
                crowd,
                look,
                not others_only,
            )
        first = rows[0]
        found, others, walked = first["found"], first["others"], first["steps"]
        ended = walked < steps and others < most and (found < most or walked < look)
        rows = [row for row in rows if row["seq"] is not None]
        leased = [_leased(row, provider, token, asked, timeout_s, self._allowed) for row in rows]
        return LeaseResult(
            leased=leased,
            after="" if ended else first["lane"],
            found=found,
            others=others,
            now=first["now"],
            gone_s=self._theirs.gone_back(first["now"], asked),
            lapsed=[each for row, each in zip(rows, leased, strict=True) if row["lapsed"]],
        )

    async def shorten_waits(self, provider: str, *, gone_s: float, timeout_s: float, wait_s: float) -> None:
        """Shorten leases, waits and pauses that are longer than they may be, whichever clock they were written by.

        `gone_s`: the clock is known to have gone back by so much, so that first attempts are longer ago than they
        look; the relay that notices first writes that.
        """
        async with self._link.lent() as connection, connection.transaction():
            if gone_s:
                leases = Leases(self._link.sql.schema, self._relay)
                granted = await leases.acquire(connection, f"clock:{provider}", NOTICED_S)
                gone_s = gone_s if granted is not None else 0.0
            spans = lease_of(timeout_s), wait_s
            await connection.execute(self._link.sql["bring_times_back"], provider, *spans, gone_s)

    async def start(self, batch: Sequence[LeasedIntent], horizon_s: float | None) -> list[LeasedIntent]:
        """Record that an attempt of each begins; return those that may be sent.

        Wire bytes of a first attempt are frozen with it. `horizon_s`: none begins so long after its first attempt.
        """
        seqs = [each.seq for each in batch]
        columns = zip(*(each.to_freeze() for each in batch), strict=True)
        async with self._link.lent() as connection:
            rows = await connection.fetch(
                self._link.sql["start_attempts"], batch[0].token, seqs, *columns, horizon_s
            )
        begun = {row["seq"]: row for row in rows}
        for each in batch:
            if row := begun.get(each.seq):
                each.first_started, each.wire_hash = row["first_started"], row["wire_hash"]
        return [each for each in batch if each.seq in begun]

    async def settle(self, batch: Sequence[Settled], memory_s: float | None) -> set[int]:
        """Write replies; return the numbers of the intents that were still to be settled."""
        plain = [each for each in batch if each.is_plain()]
        known = await self._settle_plain(plain, memory_s) if plain else set()
        rest = [each for each in batch if each.leased.seq not in known]
        if rest:
            columns = list(zip(*map(_columns, rest), strict=True))
            async with self._link.lent() as connection:
                rows = await connection.fetch(
                    self._link.sql["record_replies"], self._relay, memory_s, *columns
                )
            known.update(row["seq"] for row in rows)
        return known

    async def _settle_plain(self, batch: Sequence[Settled], memory_s: float | None) -> set[int]:
        leased = [each.leased for each in batch]
        replies = [each.reply for each in batch]
        async with self._link.lent() as connection:
            rows = await connection.fetch(
                self._link.sql["record_first_successes"],
                memory_s,
                [each.seq for each in leased],
                [each.first_started for each in leased],
                [each.wire_hash for each in leased],
                [reply.status or None for reply in replies],
                [reply.provider_id or None for reply in replies],
                [reply.excerpt or None for reply in replies],
            )
        return {row["seq"] for row in rows}

    async def put_back(self, leased: Sequence[LeasedIntent]) -> None:
        """Give leases of one claim back, of which no attempt has begun."""
        async with self._link.lent() as connection:
            seqs = [each.seq for each in leased]
            await connection.execute(self._link.sql["return_leases"], leased[0].token, seqs)

    async def take(
        self, provider: str, wanted: Mapping[str, int], rate_per_s: float, burst: int
    ) -> dict[str, tuple[int, float]]:
        """Take tokens for each destination; return how many, and the seconds until its next one."""
        async with self._link.lent() as connection:
            rows = await connection.fetch(
                self._link.sql["take_rate_tokens"],
                provider,
                list(wanted),
                list(wanted.values()),
                rate_per_s,
                burst,
            )
        return {row["destination"]: (row["granted"], row["next_s"]) for row in rows}

    async def heartbeat(self, instance: UUID, host: str, pid: int, providers: Sequence[str]) -> None:
        """Record that this relay works, for these providers."""
        async with self._link.lent() as connection:
            await connection.execute(self._link.sql["upsert_relay_heartbeat"], instance, host, pid, providers)

    async def remove_heartbeat(self, instance: UUID) -> None:
        """Record that this relay has stopped."""
        async with self._link.lent() as connection:
            await connection.execute(self._link.sql["delete_relay_heartbeat"], instance)

    async def hold(self, provider: str, destination: str, why: str) -> None:
        """Hold all intents for a destination until an operator acts."""
        async with self._link.lent() as connection:
            await connection.execute(self._link.sql["hold_destination"], provider, destination, why)

    async def release(self, providers: Sequence[str], why: Sequence[str]) -> None:
        """Release intents and destinations that were held for these reasons."""
        async with self._link.lent() as connection:
            await connection.execute(self._link.sql["release_intents_of_known_providers"], providers, why)

    async def forget_destinations(self, rates: Mapping[str, tuple[float, int] | None]) -> None:
        """Forget destinations of these providers (by their rate and burst, if they have one) that nothing is known of
        any more: each that an intent names leaves a row."""
        sql = self._link.sql
        async with self._link.lent() as connection:
            await connection.execute(sql["forget_circuits"], sorted(rates), FORGET_S, FORGOTTEN_AT_ONCE)
            for provider, rate in sorted(rates.items()):
                if rate is not None:
                    await connection.execute(
                        sql["forget_buckets"], provider, FORGET_S, FORGOTTEN_AT_ONCE, *rate
                    )

    async def hold_unserved(self, providers: Sequence[str], consumers: Sequence[str]) -> dict[str, int]:
        """Hold these consumers' intents for providers that are not among these; return how many, by provider."""
        async with self._link.lent() as connection:
            found = await connection.fetch(self._link.sql["select_unknown_providers"], providers)
            held = {
                row["provider"]: await connection.fetchval(
                    self._link.sql["hold_intents_of_unknown_providers"], row["provider"], consumers
                )
                for row in found
            }
        return {provider: n for provider, n in held.items() if n}


def circuit_of(row: Row, state: str = "state") -> Circuit:
    """Return the circuit in a row of `circuits`."""
    return Circuit(
        state=State(row[state]),
        epoch=row["epoch"],
        failures=row["failures"],
        openings=row["openings"],
        until=row["until"],
        pause_s=row["pause_s"],
    )


_CLOSED = Circuit()


def _leased(
    row: Row, provider: str, token: UUID, asked: float, timeout_s: float, allowed: Collection[str]
) -> LeasedIntent:
    return LeasedIntent(
        seq=row["seq"],
        token=token,
        state=IntentState(row["state"]),
        attempt=row["attempt"],
        spent=row["spent"],
        blocks=row["on_dead"] == "block",
        doubted=row["doubted"],
        since_first_s=row["since_first_s"],
        at=clock.now(),
        rendered=row["wire_hash"] is not None,
        circuit=_CLOSED if row["circuit"] is None else circuit_of(row, "circuit"),
        request=_request(row, provider, timeout_s, asked + OPEN_S, allowed),
    )


def _request(
    row: Row, provider: str, timeout_s: float, not_after: float, allowed: Collection[str]
) -> Request:
    body, wire = row["body"], row["wire"]
    traceparent, tracestate = trace_context(row["traceparent"], row["tracestate"])  # it becomes a header
    return Request(
        key=row["key"],
        provider=provider,
        destination=row["destination"],
        intent=row["class"],
        body=body,
        wire=b"" if row["wire_hash"] is None else body if wire is None else wire,
        slot=row["slot"],
        source=row["source"],
        id=row["id"],
        aggregate=row["aggregate"],
        version=row["version"],
        produced=row["consumer"] == 0,
        created=row["created"],
        due=row["due"],
        traceparent=traceparent,
        tracestate=tracestate,
        baggage=baggage.permitted(row["baggage"], allowed),
        lookup_hint=row["lookup_hint"],
        timeout_s=timeout_s,
        not_after=not_after,
    )


def _columns(settled: Settled) -> tuple[object, ...]:
    leased, reply, step = settled.leased, settled.reply, settled.next
    said = reply.reason or ("" if reply.outcome is Outcome.SENT else reply.outcome.value)
    reason = f"{said}; {step.note}" if step.note else said
    return (
        leased.seq,
        leased.attempt,
        step.state,
        step.open,
        step.wait_s,
        step.spent,
        step.forget,
        step.fact,
        settled.tried,
        reply.outcome.value,
        reply.status or None,
        reply.provider_id or None,
        reason or None,
        reply.excerpt or None,
        reply.replayed,
        reply.took_s,
        leased.token,
    )

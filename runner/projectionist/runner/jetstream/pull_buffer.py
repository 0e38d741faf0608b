"""Keeps the broker's next messages on their way: asks in time, counts what is still due, notices silence."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import clock
from projectionist.core.nats.fast_client import weight
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.runner.jetstream.raw_connection import RawConnection

log = logging.getLogger(__name__)

MOST_BYTES = 32 * 1024 * 1024
"""What one pull may bring, and above which the buffer asks for no more."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

_LEFT = re.compile(rb"\r\nNats-Pending-Messages: (\d+)\r\n", re.IGNORECASE)
_QUIET = (b"408 ", b"409 Batch Completed", b"409 Message Size Exceeds MaxBytes")
_HEARTBEAT = b"100 "


class Pulls:
    """The buffer between the wire and `take`, as a Sink. Everything here happens at once, on the event loop.

    A pull is an order over `batch` messages that the broker fills while they last, and closes with a status.
    Only their sum is kept, since it serves overlapping orders in turns. A new generation forgets the sum and
    is deaf to statuses of older ones; what is ordered twice by that is bounded by the durable's max_ack_pending.
    """

    def __init__(
        self, connection: RawConnection, next_subject: str, inbox: str, *, at_once: int, heartbeat_s: float
    ) -> None:
        self.arrivals: list[Arrival] = []
        self.size = 0
        self.due = 0
        """Messages ordered and not yet come."""
        self.doubt = ""
        """What the broker said that leaves open whether durable and stream are still there."""
        self.not_before = 0.0
        self.held = False
        """Whether nothing more is to be ordered for now."""
        self._connection, self._next, self._inbox = connection, next_subject.encode(), inbox
        self._at_once, self._heartbeat_s, self._tick_s = at_once, heartbeat_s, heartbeat_s / 5
        self._order_bytes = MOST_BYTES
        self._generation, self._pause, self._before = 0, FIRST_PAUSE_S, 0
        self._alive = self._heard = clock.now()
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._enough = 1
        self._logged: set[str] = set()

    def start(self, max_payload: int) -> None:
        """Begin to order; `max_payload` is the largest message the broker takes, so that one always fits."""
        self._order_bytes = max(MOST_BYTES, max_payload + 64 * 1024)
        self.renew()
        self._tick()

    def stop(self) -> None:
        """Order no more."""
        if self._timer is not None:
            self._timer.cancel()
        self.doubt = "stopped"

    def rest(self) -> list[Arrival]:
        """Return what was not taken."""
        rest, self.arrivals, self.size = self.arrivals, [], 0
        return rest

    def renew(self) -> None:
        """Forget what is due and order anew."""
        self._generation += 1
        self.due, self.doubt = 0, ""
        self._heard = clock.now()
        self._order()

    def suspect(self, said: str) -> None:
        """Order nothing for a while; `said` is to be looked into after that."""
        self._log_once(f"the broker says {said!r}")
        self._generation += 1
        self.due, self.doubt = 0, said
        self.not_before = clock.now() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        self._release()

    def _log_once(self, said: str) -> None:
        """Log it once, until messages come again."""
        if said not in self._logged:
            self._logged.add(said)
            log.warning("durable %s: %s", self._next.decode(), said)

    async def wait(self, enough: int, seconds: float | None = None) -> None:
        """Return when so many are there, or `seconds` are over, or at the next tick."""
        loop = asyncio.get_running_loop()
        self._waiter, self._enough = loop.create_future(), enough
        timer = loop.call_later(seconds, self._release) if seconds is not None else None
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def cut(self, most: int, most_bytes: int) -> list[Arrival]:
        """Return the first arrivals, at least one, within both limits."""
        if len(self.arrivals) <= most and self.size <= most_bytes:
            taken, self.arrivals, self.size = self.arrivals, [], 0
        else:
            size = count = 0
            for arrival in self.arrivals[:most]:
                own = weight(arrival)
                if count and size + own > most_bytes:
                    break
                count, size = count + 1, size + own
            taken = self.arrivals[:count]
            del self.arrivals[:count]
            self.size -= size
        self._order()
        return taken

    def begin(self) -> tuple[list[Arrival], float]:
        """Note that a read begins.

        If the event loop stood still, the messages of this read may have waited in the socket since then, and
        their ack wait has been running.
        """
        now = clock.now()
        self._before = len(self.arrivals)
        self._heard = now
        return self.arrivals, now if now - self._alive < 3 * self._tick_s else self._alive

    def end(self, size: int) -> None:
        """Note that a read is over."""
        self.size += size
        came = len(self.arrivals) - self._before
        if not came:
            return
        self.due = max(0, self.due - came)
        self._pause = FIRST_PAUSE_S
        self._logged.clear()
        self._order()
        if len(self.arrivals) >= self._enough:
            self._release()

    def status(self, subject: str, head: bytes) -> None:
        """Take what the broker says about one of our pull requests."""
        if subject.rpartition(".")[2] != str(self._generation):
            return
        self._heard = clock.now()
        said = head[9:].partition(b"\r\n")[0]
        if said.startswith(_HEARTBEAT):
            return
        left = _LEFT.search(head)
        if said.startswith(_QUIET) and left is not None:
            self.due = max(0, self.due - int(left[1]))
            self._order()
        else:
            self.suspect(said.decode("utf-8", "replace"))

    def _order(self) -> None:
        batch = self._at_once - len(self.arrivals) - self.due
        if 2 * batch < self._at_once or self.size > MOST_BYTES or self.doubt or self.held:
            return
        order = {
            "batch": batch,
            "expires": round(6 * self._heartbeat_s * 1e9),
            "idle_heartbeat": round(self._heartbeat_s * 1e9),
            "max_bytes": self._order_bytes,
        }
        reply = f"{self._inbox}.{self._generation}".encode()
        if self._connection.post([self._next], msgspec.json.encode(order), reply):
            self._heard = self._heard if self.due else clock.now()
            self.due += batch

    def _tick(self) -> None:
        self._alive = clock.now()
        self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)
        if self.due and self._alive - self._heard > 2 * self._heartbeat_s:
            self._log_once("the broker is silent, requesting again")
            announce("source.silent")
            self.renew()
        self._order()
        self._release()

    def _release(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

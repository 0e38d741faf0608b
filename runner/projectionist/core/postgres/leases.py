"""Leases: one process at a time may do a thing; every grant has a higher epoch than all before.

The database's clock alone decides when a lease ends. A lease is a hint about whose turn it is; what must not
happen after somebody else's grant is fenced by the epoch, in the transaction that does it.
"""

from __future__ import annotations

import msgspec

from projectionist.core import clock
from projectionist.core.postgres.connections import Connection
from projectionist.core.postgres.statements import Statements

MARGIN = 0.1
"""The share of a lease that its holder leaves unused: two clocks never run at quite the same rate."""


class Lease(msgspec.Struct, frozen=True):
    """A grant: `epoch` goes into every fenced statement, `trusted_until` is on `clock.now()`."""

    name: str
    epoch: int
    ttl_s: float
    trusted_until: float

    def trusted(self) -> bool:
        """Return whether the holder may still act on it; False some time before the database would say so."""
        return clock.now() < self.trusted_until


class Leases:
    """Takes, keeps and gives back leases for one owner, whose name no other process may have."""

    def __init__(self, schema: str, owner: str) -> None:
        self._sql = Statements("projectionist.core", schema)
        self._owner = owner

    async def acquire(self, connection: Connection, name: str, ttl_s: float) -> Lease | None:
        """Return the lease on `name`, or None while another owner holds it.

        Whoever asks again while holding it gets it again under a higher epoch, so asking again is the way to
        know after a COMMIT without an answer.
        """
        asked = clock.now()
        epoch = await connection.fetchval(self._sql["acquire_lease"], name, self._owner, ttl_s)
        return None if epoch is None else _granted(name, epoch, ttl_s, asked)

    async def renew(self, connection: Connection, lease: Lease) -> Lease | None:
        """Return the same grant for another `ttl_s` from now, or None if it is over: then stop, and acquire anew."""
        asked = clock.now()
        epoch = await connection.fetchval(self._sql["renew_lease"], lease.name, lease.epoch, lease.ttl_s)
        return None if epoch is None else _granted(lease.name, epoch, lease.ttl_s, asked)

    async def release(self, connection: Connection, lease: Lease) -> None:
        """Let others have it now. Harmless when it is over or somebody else's."""
        await connection.execute(self._sql["release_lease"], lease.name, lease.epoch)


def _granted(name: str, epoch: int, ttl_s: float, asked: float) -> Lease:
    # Counted from before the request: the database started its count later, never earlier.
    return Lease(name, epoch, ttl_s, asked + ttl_s * (1 - MARGIN))

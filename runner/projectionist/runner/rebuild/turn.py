"""Whose turn it is to build: a lease, kept while the builder lives. A second one is refused by the first's name."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio

from projectionist.core.leases import Lease, Leases
from projectionist.core.signals import announce
from projectionist.core.trouble import is_transient
from projectionist.runner.rebuild.desk import BuildLost, Desk, RebuildError

if TYPE_CHECKING:
    from projectionist.core.db import Connection

TTL_S = 10.0
RENEWED_S = 2.0
LOOKED_S = 0.2


class Taken(RebuildError):
    """Another process is building this consumer's generation."""


def owner() -> str:
    """A name for this process that says where it is to be found."""
    return f"{socket.gethostname()} pid {os.getpid()} ({token_hex(3)})"


@asynccontextmanager
async def turn(
    connection: Connection,
    schema: str,
    consumer: int,
    who: str,
    beside: Callable[[Lease], Awaitable[None]] | None = None,
) -> AsyncIterator[Lease]:
    """The right to build, over a connection of its own; raises Taken while another process uses it.

    After a crash the lease of the one before runs out by itself, which is waited for. Each time it is renewed,
    `beside` may use the connection.
    """
    leases, name = Leases(schema, who), f"build:{consumer}"
    lease = await _acquire(connection, schema, leases, name)
    announce("turn.taken")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_keep, leases, connection, lease, beside)
            yield lease
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(2):
            if not connection.is_closed():
                await leases.release(connection, lease)


async def _acquire(connection: Connection, schema: str, leases: Leases, name: str) -> Lease:
    """The lease; an abandoned one runs out, one in use is renewed before that."""
    desk, before = Desk(connection, schema), None
    while (lease := await leases.acquire(connection, name, TTL_S)) is None:
        row = await desk.row("lease_holder", name)
        if row is not None and before is not None and (row["owner"], row["expires_at"]) != before:
            raise Taken(
                f"{row['owner']} is building it", remedy="Wait for it, or end that process and try again"
            )
        before = before or (None if row is None else (row["owner"], row["expires_at"]))
        announce("turn.waiting")
        await anyio.sleep(LOOKED_S)
    return lease


async def _keep(
    leases: Leases,
    connection: Connection,
    lease: Lease,
    beside: Callable[[Lease], Awaitable[None]] | None,
) -> None:
    held: Lease | None = lease
    while held is not None:
        await anyio.sleep(RENEWED_S)
        try:
            held = await leases.renew(connection, held)
            if beside is not None and held is not None:
                await beside(held)
        except (
            Exception
        ) as error:  # an outage ends the turn as a lost lease does; anything else is a fault of ours
            if not is_transient(error):
                raise
            held = None
    raise BuildLost("this process has lost its turn to build", remedy="Rebuild again: it goes on from there")

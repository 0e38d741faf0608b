"""The contenders: how each is set up, which processes it is, and where its rows are."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import msgspec
from tests.support.process import ROOT
from tests.support.rivals import faststream_app
from tests.support.rivals.ground import ACK_WAIT_S, RETRY_S, VARIABLE, RivalGround
from tests.support.rivals.load import Row

from projectionist.core.postgres.connections import Connection

APP = "tests.support.rivals.own_app:app"
COMMAND = str(Path(sys.executable).parent / "projectionist")


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """One way to keep rows in step with events, and to send a receipt for each payment."""

    name: str
    packages: tuple[str, ...]
    says: str
    commands: tuple[tuple[str, ...], ...]
    prepare: Callable[[Connection, RivalGround, Path], Awaitable[None]]
    orders: str
    """Reads order, status, cents and history."""
    careful: bool = False
    has_own_store: bool = False
    """It takes no stream: its events come from a store of its own, in order and once."""

    @property
    def versions(self) -> str:
        """Return its packages with their versions."""
        return ", ".join(f"{one} {importlib.metadata.version(one)}" for one in self.packages)

    async def rows(self, connection: Connection) -> dict[str, Row]:
        """Return its rows by order."""
        try:
            found = await connection.fetch(self.orders)
        except asyncpg.UndefinedTableError:  # its process makes them, and has not begun
            return {}
        return {row["order_id"]: (row["status"], row["cents"], json.loads(row["history"])) for row in found}

    def environment(self, ground: RivalGround) -> dict[str, str]:
        """Return what its processes need to know."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            VARIABLE: msgspec.json.encode(msgspec.structs.replace(ground, careful=self.careful)).decode(),
            "PROJECTIONIST_POSTGRES__URL": ground.database,
            "PROJECTIONIST_NATS__URL": ground.nats,
            "PROJECTIONIST_CONSUMER_DEFAULTS__ACK_WAIT_S": f"{ACK_WAIT_S:g}",
        }


async def prepare_own(_: Connection, ground: RivalGround, folder: Path) -> None:
    """Write the settings of the provider, and have the tables made."""
    lines = ["[providers.email]", f"url = {json.dumps(ground.provider)}"]
    lines += [
        "private_hosts = ['127.0.0.1']",
        "profile = 'stripe-v2'",
        f"retry = {{ initial_s = {RETRY_S} }}",
    ]
    (folder / "projectionist.toml").write_text("\n".join(lines))
    env = OWN.environment(ground)
    made = await asyncio.create_subprocess_exec(COMMAND, "migrate", APP, cwd=folder, env=env, stdout=PIPE)
    said = (await made.communicate())[0]
    assert made.returncode == 0, said.decode()


async def prepare_faststream(connection: Connection, _ground: RivalGround, _folder: Path) -> None:
    """Make the handler's tables, and pgqueuer's."""
    await connection.execute(faststream_app.TABLES)
    await faststream_app.jobs(connection).install()


async def prepare_nothing(_connection: Connection, _ground: RivalGround, _folder: Path) -> None:
    """Leave all to the processes, which make what they need."""


def _module(name: str, *words: str) -> tuple[str, ...]:
    return sys.executable, "-m", f"tests.support.rivals.{name}", *words


OWN = Contender(
    name="Projectionist",
    packages=("projectionist",),
    says="a projection and an intent; `run` and `relay`",
    commands=((COMMAND, "run", APP), (COMMAND, "relay", APP)),
    prepare=prepare_own,
    orders="select order_id, status, cents, history from orders",
)
FASTSTREAM = Contender(
    name="FastStream",
    packages=("faststream", "pgqueuer"),
    says="inbox, row and pgqueuer's job in one hand-written transaction, nack with a pause where it fails",
    commands=(_module("faststream_app"), _module("pgqueuer_app")),
    prepare=prepare_faststream,
    orders="select order_id, status, cents, history from rival_orders",
)
CAREFUL = msgspec.structs.replace(
    FASTSTREAM,
    name="FastStream, careful",
    says="the same, and what comes before its turn is left to the broker until its predecessor is in",
    careful=True,
)
EVENTSOURCING = Contender(
    name="eventsourcing",
    packages=("eventsourcing",),
    says="its own event store; a projection for the rows, one for the receipts, each place in its transaction",
    commands=(_module("eventsourcing_app", "view"), _module("eventsourcing_app", "mail")),
    prepare=prepare_nothing,
    orders="select order_id, status, cents, history from rival_orders",
    has_own_store=True,
)
CONTENDERS = (OWN, FASTSTREAM, CAREFUL, EVENTSOURCING)

"""`projectionist demo`: the main job on servers that exist only for it."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from projectionist.ops.terminal import Exit, note, say

if TYPE_CHECKING:
    from projectionist.core.settings import Settings

HELP = "show what this does on a PostgreSQL and a NATS that are started for it and deleted after it"
EXAMPLE = """
projectionist demo
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The demo takes no arguments."""


def run(args: argparse.Namespace) -> int:
    """Start both servers in a temporary folder, show it, delete everything."""
    from projectionist.core.secret import Url
    from projectionist.core.settings import Nats, Postgres, Settings
    from projectionist.ops.embedded import temporary

    note("Starting a PostgreSQL (fsync on) and a NATS server (syncing every two minutes, its default).")
    with temporary(durable=True) as servers:
        addresses = servers.up()
        postgres = Postgres(url=Url(addresses.postgres_url))
        asyncio.run(_show(Settings(postgres=postgres, nats=Nats(url=(Url(addresses.nats_url),)))))
        note("Stopping both and deleting their data.")
    return Exit.DONE


async def _show(settings: Settings) -> None:
    from projectionist.core.db import connect
    from projectionist.migrations import migrate
    from projectionist.ops.commands import status

    connection = await connect(settings.postgres, application_name="projectionist demo")
    try:
        for migration in await migrate(connection, settings.postgres.schema):
            say(f"applied {migration.name}")
    finally:
        await connection.close()
    status.show(await status.look(settings))

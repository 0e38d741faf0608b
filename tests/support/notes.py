"""A table of notes, one an aggregate, some of which do what no event should; as an app for processes of their own too.

`HELD_STREAM` names the stream.
"""

from __future__ import annotations

import os
import signal

from tests.support.servers import Stream
from tests.support.shop import OrderNoted

from projectionist.projections import Envelope, SqlProjection, Tx, on
from projectionist.runner import App


def notes(stream: Stream) -> type[SqlProjection]:
    """The projection, on this stream."""

    class Notes(SqlProjection, stream=stream.name, subjects=stream.subject("order", "{aggregate}")):
        tables = {"notes": "note text primary key"}

        @on(OrderNoted)
        async def noted(self, tx: Tx, event: OrderNoted, envelope: Envelope) -> None:
            await tx.execute("insert into {notes} (note) values ($1)", envelope.aggregate_id)
            match event.text:
                case "slow":
                    await tx.execute("select pg_sleep(600)")
                case "ends":
                    await tx.execute("select pg_terminate_backend(pg_backend_pid())")
                case "crashes":
                    os.kill(await tx.fetchval("select pg_backend_pid()"), signal.SIGKILL)
                    await tx.execute("select pg_sleep(600)")

    return Notes


app = App(projections=[notes(Stream(os.environ.get("HELD_STREAM", "UNNAMED")))])

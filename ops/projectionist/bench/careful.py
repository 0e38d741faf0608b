"""One transaction an event, as a careful user writes it: inbox, position and row, then the ack."""

from __future__ import annotations

import msgspec

from projectionist.bench import plain
from projectionist.bench.load import PLACED
from projectionist.bench.shop import ORDERS, BenchOrderPlaced, OrderChanged
from projectionist.core.postgres import connections
from projectionist.core.postgres.statements import Statements
from projectionist.projections.tables.ddl import physical

_placed, _changed = msgspec.json.Decoder(BenchOrderPlaced), msgspec.json.Decoder(OrderChanged)


class CarefulHandler:
    """What a careful user would write into the subscriber's function."""

    def __init__(self, connection: connections.Connection, schema: str, number: int) -> None:
        self._connection, self._number = connection, number
        self._sql = Statements("projectionist.bench", schema)
        table = ORDERS.table
        assert table is not None
        orders = physical(table, schema, generation=1)
        # The table is made from a class, so no migration knows it, and no file of SQL can name it.
        self._place = (
            f"insert into {orders} (order_id, customer, email, total_cents) values ($1, $2, $3, $4) "
            "on conflict (order_id) do update "
            "set customer = excluded.customer, email = excluded.email, total_cents = excluded.total_cents"
        )
        self._change = f"update {orders} set total_cents = $2, changes = changes + 1 where order_id = $1"

    async def settle(self, event: plain.PlainRead) -> None:
        """Settle one event in one transaction."""
        run, number = self._connection.execute, self._number
        async with self._connection.transaction():
            claimed = await run(
                self._sql["one_claim"],
                number,
                1,
                1,
                event.source,
                event.id,
                event.seq,
                event.subject,
                event.kind,
                event.aggregate,
                event.version,
                plain.hashed(event),
            )
            if claimed == "INSERT 0 0":
                return
            moved = await run(self._sql["one_advance"], number, event.aggregate, event.version, event.seq)
            assert moved == "INSERT 0 1", "no gap here"
            order = event.aggregate[1:]
            if event.kind == PLACED:
                placed = _placed.decode(event.data)
                await run(self._place, order, placed.customer, placed.email, placed.total_cents)
            else:
                await run(self._change, order, _changed.decode(event.data).total_cents)

"""The live twin: the shortest honest script that keeps the same inbox, positions and rows as the product.

It makes the statements of one batch that nobody could leave out, in the same order and on the same tables, and has
no parking, no isolation of failures, no intents, no guards against bad bytes: what it meets must be in order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench import plain
from projectionist.bench.load import PLACED
from projectionist.bench.shop import ORDERS, SCENE, BenchOrderPlaced, OrderChanged
from projectionist.core.postgres import connections
from projectionist.core.postgres.statements import Statements
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.runner.database.barrier import barrier_key

if TYPE_CHECKING:
    from projectionist.bench.plain import PlainRead
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings

_placed, _changed = msgspec.json.Decoder(BenchOrderPlaced), msgspec.json.Decoder(OrderChanged)
Rows = dict[str, list[Any]]


class Twin:
    """One connection and the statements of a batch."""

    def __init__(self, connection: Connection, schema: str, number: int) -> None:
        self._connection, self._number = connection, number
        self._sql = Statements("projectionist.bench", schema)
        table = ORDERS.table
        assert table is not None
        self._rows = ReadModel(
            table, schema, generation=1
        )  # select … = any($1); insert … on conflict do update
        self._upsert = self._rows.upsert.replace("::text::", "::")  # arrays as anybody would pass them
        self._barrier = barrier_key(schema, number)
        self._placed: set[str] = set()
        self._batches = itertools.count(1)

    async def settle(self, events: list[PlainRead]) -> None:
        """Settle one batch in one transaction. The numbers are those of the product's own transaction."""
        run, sql, number = self._connection.execute, self._sql, self._number
        events.sort(key=lambda event: (event.source, event.id))
        aggregates = sorted({event.aggregate for event in events})
        async with self._connection.transaction():  # 0, and 16 at its end
            await run(sql["twin_barrier"], self._barrier)  # 1
            control = await self._connection.fetchrow(sql["twin_control"], number)  # 2
            assert control is not None
            await self._claim(events, control["incarnation"])  # 3
            if fresh := [aggregate for aggregate in aggregates if aggregate not in self._placed]:
                await run(sql["twin_place"], number, fresh)  # 5
            positions = await self._connection.fetch(sql["twin_positions"], number, aggregates)  # 6
            orders = [aggregate[1:] for aggregate in aggregates]
            found = await self._connection.fetch(self._rows.load, orders)  # 8
            rows = {row[0]: list(row) for row in found}
            versions, seqs = fold(events, dict(map(tuple, positions)), rows)
            await run(self._upsert, *zip(*sorted(rows.values()), strict=True))  # 9
            moved = (
                [versions[aggregate] for aggregate in aggregates],
                [seqs[aggregate] for aggregate in aggregates],
            )
            await run(sql["twin_advance"], number, aggregates, *moved)  # 11
        self._placed.update(fresh)

    async def _claim(self, events: list[PlainRead], incarnation: int) -> None:
        tag = await self._connection.execute(
            self._sql["twin_claim"],
            self._number,
            next(self._batches),
            incarnation,
            [event.source for event in events],
            [event.id for event in events],
            [event.seq for event in events],
            [event.subject for event in events],
            [event.kind for event in events],
            [event.aggregate for event in events],
            [event.version for event in events],
            [plain.hashed(event) for event in events],
        )
        assert tag == f"INSERT 0 {len(events)}", "the twin meets no event twice"


def fold(
    events: list[PlainRead], versions: dict[str, int], rows: Rows
) -> tuple[dict[str, int], dict[str, int]]:
    """Apply the events to `rows` and `versions`, in order; the sequence each aggregate was moved by last."""
    seqs: dict[str, int] = {}
    for event in sorted(events, key=lambda event: event.seq):
        assert event.version == versions[event.aggregate] + 1, "the twin meets no gap"
        versions[event.aggregate], seqs[event.aggregate] = event.version, event.seq
        order = event.aggregate[1:]
        if event.kind == PLACED:
            placed = _placed.decode(event.data)
            rows[order] = [order, placed.customer, placed.email, placed.total_cents, 0]
        else:
            row = rows[order]
            row[3] = _changed.decode(event.data).total_cents
            row[4] += 1
    return versions, seqs


async def work(settings: Settings) -> None:
    """Settle batches until the process is ended."""
    schema, limits = settings.postgres.schema, settings.batch
    connection = await connections.connect(settings.postgres, application_name="bench twin")
    twin = Twin(connection, schema, SCENE.consumer)
    source = await plain.source(settings)
    await source.open()
    while True:
        arrivals = await source.take(limits.max_rows, limits.max_bytes, limits.max_ms / 1000)
        await twin.settle([plain.read(arrival) for arrival in arrivals])
        source.ack(arrivals)


if __name__ == "__main__":
    plain.main(work)

"""The shop in the release that a soak's processes are told, and with the fault that shows whether the soak has teeth.

`SOAK_DIGESTS` lists the notes that the release's Orders digest, divided by commas; each release has a note of its own
among them, so that no two have the same code. `SOAK_PLANT` plants a fault: in this app alone, never in the product.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tests.support.servers import Stream
from tests.support.shop import OrderPlaced, mended, shop

from projectionist.outbox.providers import Http
from projectionist.projections import Projection, on
from projectionist.runner import App
from projectionist.runner.pipeline.loop import Pipeline

APP = "tests.support.soak_app:app"
FINE, ODD = "fine", "odd"
"""Notes: what every release digests, and what a poisoned one does not."""
TWICE, EARLY_ACK = "twice", "early ack"
"""The faults that can be planted."""


def digests(release: int, *, poisoned: bool = False) -> str:
    """Return the notes that a release digests."""
    return ",".join([FINE, *([] if poisoned else [ODD]), f"release {release}"])


def spending_twice(stream: Stream) -> type:
    """`Spend`, which applies an event in seven twice."""

    class Spend(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="spend",
        key="customer",
        effects="beginning",
    ):
        """Does what no runner's guard can see: one event, two effects on its row."""

        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key="customer")
        def placed(self, event: OrderPlaced) -> None:
            times = 2 if event.cents % 7 == 0 else 1
            self.orders += times
            self.cents += times * event.cents

    return Spend


def ack_before_the_commit() -> None:
    """Have every batch acked before it is settled."""
    settle = Pipeline._settle

    async def hasty(pipeline: Any, guard: Any, batch: Any) -> Any:
        early = [one.arrival for one in (*batch.deliveries, *batch.unreadable) if one.arrival is not None]
        if early and not batch.due:
            pipeline._source.ack(early)
        return await settle(pipeline, guard, batch)

    Pipeline._settle = hasty  # type: ignore[method-assign, assignment]


def _app(environ: Mapping[str, str]) -> App:
    stream, plant = Stream(environ["SOAK_STREAM"]), environ.get("SOAK_PLANT", "")
    orders = mended(stream, digests=frozenset(environ["SOAK_DIGESTS"].split(",")))
    spend = spending_twice(stream) if plant == TWICE else shop(stream).Spend
    if plant == EARLY_ACK:
        ack_before_the_commit()
    return App(projections=[orders, spend], providers={"email": Http})


if "SOAK_STREAM" in os.environ:
    app = _app(os.environ)

"""The shop with a provider for its receipts, in the revision that `SWEEP_REVISION` names: processes that are swept."""

from __future__ import annotations

import os

from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderRow, shop

from projectionist.outbox.providers import Http
from projectionist.projections import on
from projectionist.runner import App

APP = "tests.support.sweep_app:app"
POISON = "bad"


def revised(stream: Stream) -> type:
    """`Orders` in its second revision, with the same rows."""

    class Orders(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        revision=2,
    ):
        """Says the same in other words."""

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            if event.text == POISON:
                raise ValueError("cannot digest it")
            self.history = [*self.history, event.text]

    return Orders


if "SWEEP_STREAM" in os.environ:
    _stream = Stream(os.environ["SWEEP_STREAM"])
    _shop = shop(_stream)
    _shop.trouble.poison.add(POISON)
    _orders = revised(_stream) if os.environ["SWEEP_REVISION"] == "2" else _shop.Orders
    app = App(projections=[_orders, _shop.Spend], providers={"email": Http})

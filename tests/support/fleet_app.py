"""The shop as an app of three consumers, in the release that `FLEET_RELEASE` names: for deploys beside each other.

`first`; `second` has newer code of Orders alone; `raised` has a higher revision of Orders, which fails on bad notes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderRow, mended, shop
from tests.support.shop_app import environment

from projectionist.projections import on
from projectionist.runner import App

APP = "tests.support.fleet_app:app"


def release(live: ConsumerHarness, name: str, **settings: str) -> Mapping[str, str]:
    """Return what a process of this release needs to know."""
    return {
        **environment(live, run__heartbeat_s="0.2", **settings),
        "FLEET_STREAM": live.stream.name,
        "FLEET_RELEASE": name,
    }


def raised(stream: Stream) -> type:
    """`Orders` in its second revision."""

    class Orders(
        OrderRow,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        revision=2,
    ):
        """Has one more column, and cannot digest what the first one could."""

        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            if event.text == "bad":
                raise ValueError("cannot digest bad")
            self.notes += 1

    return Orders


if "FLEET_STREAM" in os.environ:
    _stream = Stream(os.environ["FLEET_STREAM"])
    _shop = shop(_stream)
    _orders = {"second": mended, "raised": raised}.get(os.environ["FLEET_RELEASE"], lambda _: _shop.Orders)
    app = App(projections=[_orders(_stream), _shop.Spend, _shop.Mailer])

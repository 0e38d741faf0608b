"""The shop as an app for processes of their own: handlers that end or hang the process, and a newer version of one.

`HELD_STREAM` names the stream, `HELD_CODE=new` chooses the newer handlers.
"""

from __future__ import annotations

import os
import signal

from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, Receipt, shop

from projectionist.projections import Projection, on
from projectionist.runner import App

STREAM = Stream(os.environ.get("HELD_STREAM", "UNNAMED"))


def meet(text: str) -> None:
    """End the process or hang, as the text says: what no exception tells."""
    if text == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while text == "hang":
        pass


class Orders(
    Projection,
    stream=STREAM.name,
    subjects=STREAM.subject("order", "{aggregate}"),
    table="orders",
    key="order_id",
    effects="beginning",
):
    """The same table, filled by newer code."""

    order_id: str
    status: str = "new"
    cents: int = 0
    history: list[str] = []

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> None:
        self.status, self.cents = "placed by newer code", event.cents
        self.history.append("placed")

    @on(OrderPaid)
    def paid(self, event: OrderPaid) -> Receipt:
        self.status = "paid by newer code"
        self.history.append("paid")
        return Receipt(order_id=self.order_id)

    @on(OrderNoted)
    def noted(self, event: OrderNoted) -> None:
        self.history.append(event.text)


_shop = shop(STREAM)
_shop.trouble.meet = meet
app = App(projections=[Orders] if os.environ.get("HELD_CODE") == "new" else [_shop.Orders, _shop.Spend])

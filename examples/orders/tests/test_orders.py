"""Handlers without servers; the app on real ones; the web on both."""

from __future__ import annotations

from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from orders.app import OrderPaid, OrderPlaced, OrderSummary, PackOrder, Receipt, Warehouse, make_app
from orders.web import make_api
from projectionist.testing import Live, given

PLACED = OrderPlaced(email="ann@example.org", total_cents=4200)


def test_a_paid_order_has_a_receipt() -> None:
    story = given(OrderSummary).when("order/o-1", PLACED, OrderPaid())
    assert story.row("o-1").status == "paid"
    assert story.intents == [Receipt(to="ann@example.org", order_id="o-1", total_cents=4200)]


def test_the_warehouse_packs_what_is_paid() -> None:
    story = given(Warehouse).when("order/o-1", PLACED, OrderPaid())
    assert story.intents == [PackOrder(order_id="o-1")]


@pytest.mark.anyio
async def test_mail_and_webhook_go_out_once(projectionist: Live) -> None:
    await projectionist.publish("order/o-1", PLACED, OrderPaid())
    await projectionist.settled()
    row = await projectionist.row(OrderSummary, "o-1")
    assert row is not None
    assert row.status == "paid"
    assert {type(one) for one in await projectionist.intents()} == {Receipt, PackOrder}


def test_a_customer_orders_and_pays(projectionist: Live) -> None:
    url = projectionist.settings.postgres.url
    assert url is not None
    web = make_api(make_app(projectionist.settings), url.reveal(), run=False)
    body = {"id": "o-1", "email": "ann@example.org", "total_cents": 4200}
    key = {"idempotency-key": str(uuid4())}
    with TestClient(web) as client:
        assert client.post("/orders", json=body, headers=key).json() == {"version": 1, "shown": True}
        again = client.post("/orders", json=body, headers=key)  # sent twice, placed once
        assert again.json()["version"] == 1
        assert client.post("/orders/o-1/payment?version=7").status_code == 409
        assert client.post("/orders/o-1/payment?version=1").json() == {"version": 2, "shown": True}
        assert client.get("/orders/o-1").json()["status"] == "paid"
        assert client.get("/orders/none").status_code == 404

"""The app: what `projectionist run` and `projectionist relay` get as `projectionist.ops.demo.shop.app:app`."""

from __future__ import annotations

from projectionist.api import App
from projectionist.ops.demo.shop.mailbox import Mailbox
from projectionist.ops.demo.shop.projections import (
    CustomerSpend,
    Inventory,
    OrderLines,
    OrderSummary,
    Receipts,
)

app = App(
    projections=[OrderSummary, OrderLines, CustomerSpend, Inventory, Receipts],
    providers={"email": Mailbox},
)

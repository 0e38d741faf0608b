"""The app: what `projectionist run projectionist.ops.demo.shop.app:app` runs."""

from __future__ import annotations

from projectionist.ops.demo.shop.projections import CustomerSpend, Inventory, OrderSummary, Receipts
from projectionist.runner import App

app = App(projections=[OrderSummary, CustomerSpend, Inventory, Receipts])

"""A shop whose receipts go to an HTTP provider, for processes that are traced. The test says the stream."""

from __future__ import annotations

import os

from tests.support.servers import Stream
from tests.support.shop import shop

from projectionist.outbox.providers import Http
from projectionist.runner import App

APP = "tests.support.traced_app:app"

if "LAB_STREAM" in os.environ:
    _shop = shop(Stream(os.environ["LAB_STREAM"]))
    _shop.trouble.poison.update(filter(None, os.environ["LAB_POISON"].split(",")))
    app = App(projections=[_shop.Orders], providers={"email": Http})

"""An app for a relay in a process of its own, that publishes recorded events."""

from __future__ import annotations

import os

from tests.support.recording import CartOpened, CartPaid

from projectionist.projections import Stream
from projectionist.runner import App

_name = os.environ["RECORDING_STREAM"]
app = App(streams=[Stream(_name, f"{_name}.cart.{{id}}", source="cart-api", events=[CartOpened, CartPaid])])

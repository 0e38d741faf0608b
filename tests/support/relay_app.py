"""Apps for relays in processes of their own."""

from __future__ import annotations

from projectionist.outbox.providers import Http, NatsPublish, Webhook
from projectionist.runner.app import App

payments = App(providers={"payments": Http})
hooks = App(providers={"hooks": Webhook})
events = App(providers={"events": NatsPublish})
empty = App()
odd = App(providers={"odd": lambda: None})

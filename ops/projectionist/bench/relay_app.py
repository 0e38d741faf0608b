"""The apps of `bench relay`: one provider each, which publishes on the scene's stream, or calls a stub."""

from __future__ import annotations

import os

from projectionist.bench.scene import STUB, told
from projectionist.outbox.providers import Http, NatsPublish
from projectionist.outbox.providers.http import HttpSettings
from projectionist.outbox.providers.nats import NatsSettings
from projectionist.runner.app import App

SCENE = told()
SUBJECT = f"{SCENE.stream}.told.{{order}}"


class DerivedSettings(NatsSettings, frozen=True, kw_only=True):
    """Those of the product, with the scene's subject as their default."""

    subject: str = SUBJECT
    stream: str = SCENE.stream


class Derived(NatsPublish):
    """The product's own provider."""

    Settings = DerivedSettings


class CallSettings(HttpSettings, frozen=True, kw_only=True):
    """Those of the product, with the stub as their default."""

    url: str = os.environ.get(STUB, "http://127.0.0.1/")
    profile: str = "stripe-v2"
    private_hosts: tuple[str, ...] = ("127.0.0.1",)


class Call(Http):
    """The product's own provider."""

    Settings = CallSettings


nats = App(providers={"events": Derived})
http = App(providers={"events": Call})

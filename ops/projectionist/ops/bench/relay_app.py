"""The app of `bench relay`: one provider, which publishes on the stream of the scene."""

from __future__ import annotations

from projectionist.ops.bench.scene import told
from projectionist.outbox.providers import NatsPublish
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


app = App(providers={"events": Derived})

"""What is printed for apps that a test with servers does not have."""

from __future__ import annotations

import pytest

from projectionist.core.settings.settings import Settings, load
from projectionist.ops.doctor.permissions import Process, rights
from projectionist.outbox.providers import NatsPublish
from projectionist.outbox.providers.base import Provider
from projectionist.projections import Event, Projection, Stream, on
from projectionist.runner.app import App


class Placed(Event, type="order.placed"):
    pass


class Orders(Projection, stream="ORDERS", subjects="orders.{id}", table="orders", key="order_id"):
    order_id: str

    @on(Placed)
    def placed(self, event: Placed) -> None:
        pass


def settings(**env: str) -> Settings:
    return load(None, {f"PROJECTIONIST_{key}": value for key, value in env.items()})


def publishes(process: Process, app: App, found: Settings, **durables: str) -> list[str]:
    return [right.subject for right in rights(process, app, found, durables).publish]


def test_acks_are_those_of_the_durable_that_the_database_names() -> None:
    app = App(projections=[Orders])
    known = publishes(Process.RUN, app, settings(), Orders="Orders-1a")
    assert [one for one in known if "ACK" in one] == [
        "$JS.ACK.ORDERS.Orders-1a.>",
        "$JS.ACK.*.*.ORDERS.Orders-1a.>",
    ]


def test_an_unregistered_consumer_may_ack_all_and_that_is_told() -> None:
    found = rights(Process.RUN, App(projections=[Orders]), settings(), {})
    assert "$JS.ACK.ORDERS.*.>" in [right.subject for right in found.publish]
    assert any("Orders" in note and "projectionist migrate" in note for note in found.notes)


def test_a_provider_that_names_no_stream_may_ask_for_every_one_and_that_is_told() -> None:
    env = {"PROVIDERS__told__SUBJECT": "told.x-{to}.{how}"}
    app = App(providers={"told": NatsPublish})
    assert publishes(Process.RELAY, app, settings(**env)) == [
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.INFO.*",
        "$JS.API.STREAM.MSG.GET.*",
        "told.*.*",
    ]
    assert rights(Process.RELAY, app, settings(**env), {}).notes


def test_a_provider_made_by_a_function_is_told() -> None:
    def made(*_: object) -> Provider:
        raise NotImplementedError

    found = rights(Process.RELAY, App(providers={"own": made}), settings(), {})
    assert found.publish == ()
    assert "own" in found.notes[0]


@pytest.mark.parametrize("process", list(Process))
def test_no_process_needs_all_of_jetstream(process: Process) -> None:
    stream = Stream("SHOP", "shop.{type}.{id}", source="shop", events=[Placed])
    app = App(projections=[Orders], streams=[stream])
    found = rights(process, app, settings(NATS__INBOX_PREFIX="_INBOX_shop"), {})
    assert not {">", "$JS.>", "$JS.API.>", "$JS.ACK.>"} & {right.subject for right in found.publish}
    assert [right.subject for right in found.subscribe] == ["_INBOX_shop.>"]
    assert found.block().count("allow") == 2

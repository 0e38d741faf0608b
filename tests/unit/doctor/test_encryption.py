"""Connections that are not encrypted, or checked, though they leave this machine."""

from __future__ import annotations

import pytest

from projectionist.core.settings.settings import load
from projectionist.ops.doctor.encryption import checks
from projectionist.outbox.providers import Smtp
from projectionist.runner.app import App

MAIL = {"PROVIDERS__mail__SENDER": "a@example.org"}


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"NATS__URL": "nats://n.example:4222"}, []),
        ({"NATS__URL": "nats://n.example:4222", "NATS__TLS": "require"}, ["nats"]),
        ({"NATS__URL": "nats://n.example:4222", "NATS__TLS": "disable"}, ["nats"]),
        ({"NATS__URL": "nats://127.0.0.1:4222", "NATS__TLS": "disable"}, []),
        ({"POSTGRES__URL": "postgresql://d.example/x", "POSTGRES__TLS": "require"}, ["postgres"]),
        ({"POSTGRES__URL": "postgresql://localhost/x", "POSTGRES__TLS": "require"}, []),
        (MAIL | {"PROVIDERS__mail__HOST": "m.example"}, []),
        (MAIL | {"PROVIDERS__mail__HOST": "m.example", "PROVIDERS__mail__TLS": "none"}, ["providers"]),
        (MAIL | {"PROVIDERS__mail__HOST": "127.0.0.1", "PROVIDERS__mail__TLS": "none"}, []),
    ],
)
def test_what_can_be_read_on_the_way_is_noted(env: dict[str, str], found: list[str]) -> None:
    settings = load(None, {f"PROJECTIONIST_{key}": value for key, value in env.items()})
    noted = list(checks(App(providers={"mail": Smtp}), settings))
    assert [(one.about, one.level) for one in noted] == [(about, "note") for about in found]


def test_a_section_that_the_relay_would_refuse_needs_attention() -> None:
    settings = load(None, {"PROJECTIONIST_PROVIDERS__mail__HOST": "m.example"})
    assert [one.level for one in checks(App(providers={"mail": Smtp}), settings)] == ["attention"]

"""What may hold a password shows none, however it is printed."""

from __future__ import annotations

import json
import logging
import pickle

import msgspec
import pytest

from projectionist.core.settings.secret import Secret, Url

CANARY = "c4n4ry"


class Holder(msgspec.Struct, frozen=True):
    token: Secret
    url: Url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://user:{CANARY}@db.example:5432/shop", "postgresql://***@db.example:5432/shop"),
        (f"postgresql://user:{CANARY}/@?{CANARY}@db.example/shop", "postgresql://***@db.example/shop"),
        (f"postgresql://db.example/shop?password={CANARY}", "postgresql://db.example/shop?***"),
        (f"nats://{CANARY}@one.example:4222", "nats://***@one.example:4222"),
        ("nats://one.example", "nats://one.example"),
    ],
)
def test_a_url_shows_its_place_and_no_credential(url: str, shown: str) -> None:
    assert str(Url(url)) == shown
    assert CANARY not in repr(Url(url))
    assert Url(url).reveal() == url


def test_no_way_of_printing_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    holder = Holder(Secret(CANARY), Url(f"nats://u:{CANARY}@h"))
    logging.getLogger("test").error("%s %r %s", holder, holder.token, holder.token)
    texts = [repr(holder), f"{holder.token} {holder.url!r}", f"{holder.token} {holder.token!r}", caplog.text]
    assert all(CANARY not in text for text in texts)


def test_no_encoder_writes_a_secret() -> None:
    for encode in (json.dumps, msgspec.json.encode, pickle.dumps):
        with pytest.raises(TypeError):
            encode(Secret(CANARY))


def test_secrets_compare_by_kind_and_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("nats://a") != Url("nats://a")


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@one:5432,[::1]:5433/db", ["one", "::1"]),
        ("postgresql:///db?host=/run/postgresql", ["/run/postgresql"]),
        ("postgresql:///db", []),
        ("nats://127.0.0.1:4222", ["127.0.0.1"]),
    ],
)
def test_a_url_names_its_hosts(url: str, hosts: list[str]) -> None:
    assert Url(url).hosts() == hosts


@pytest.mark.parametrize("text", ["db.example:5432", "host=db password=x", "postgresql://[::1/db", "://x"])
def test_what_is_no_url_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"URL") as refused:
        Url(text)
    assert text not in str(refused.value)

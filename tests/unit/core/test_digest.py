"""What stands for a text that may be content."""

from __future__ import annotations

from hashlib import sha256

import pytest

from projectionist.core.digest import digest, short_destination, sought, stand_in


def test_a_digest_tells_texts_apart_and_is_the_same_for_the_same() -> None:
    assert digest("Köln") == sha256("Köln".encode()).hexdigest()[:8]
    assert digest("a") != digest("b")
    assert len(digest("\ud800")) == 8


@pytest.mark.parametrize(
    ("destination", "host"),
    [
        ("https://hooks.example/services/T0/SECRET", "hooks.example "),
        ("https://user:SECRET@hooks.example:8443/?key=SECRET", "hooks.example "),
        ("SECRET@example.org", ""),
        ("http://[SECRET", ""),
    ],
)
def test_of_a_destination_the_host_is_shown_and_no_path(destination: str, host: str) -> None:
    assert short_destination(destination) == f"{host}[{digest(destination)}]"
    assert short_destination("") == ""


def test_a_filter_takes_what_a_list_shows() -> None:
    assert sought(stand_in("a text", "ValueError at shop.py:3")) == digest("a text")
    assert sought("a text [of ours]") == "a text [of ours]"
    assert sought(None) is None

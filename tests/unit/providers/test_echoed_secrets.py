"""A secret that a provider echoes is blotted out, in whatever form it comes back."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.outbox.providers.echoed_secrets import blotted, parts_of
from projectionist.outbox.providers.http_outcomes import HttpAnswer, classify
from projectionist.outbox.providers.profiles import NONE
from projectionist.outbox.providers.reply import EXCERPT_CHARACTERS, excerpt

PRINTED = st.characters(exclude_categories=("Cc", "Cs"))
SECRET = 'sk_live_abc/def+ghi"<ö>'


@pytest.mark.parametrize(
    "echo",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False).replace("/", "\\/"),
        "".join(f"\\u{ord(one):04X}" for one in SECRET),
        quote(SECRET),
        quote(SECRET, safe="").lower(),
        quote_plus(quote_plus(SECRET)),
        html.escape(SECRET),
        "".join(f"&#{ord(one)};" for one in SECRET),
        b64encode(f"user:{SECRET}".encode()).decode(),
        urlsafe_b64encode(f"u:{SECRET}:x".encode()).decode(),
        b64encode(SECRET.encode()).decode().replace("/", "\\/"),
    ],
)
def test_it_is_blotted_out_as_it_is_escaped_or_coded(echo: str) -> None:
    shown = blotted(f"<< {echo} >>", [SECRET])
    assert "***" in shown
    assert "abc" not in shown.lower()
    assert echo[8:16] not in shown


@given(st.text(PRINTED, min_size=12, max_size=40), st.binary(max_size=5), st.binary(max_size=5))
def test_a_secret_of_any_letters_is_found_wherever_it_stands(
    secret: str, before: bytes, behind: bytes
) -> None:
    coded = b64encode(before + secret.encode() + behind).decode()
    for text in (secret, json.dumps(secret), quote(secret, safe=""), coded):
        assert "***" in blotted(text, [secret])


def test_a_secret_behind_a_scheme_is_blotted_out_alone_too() -> None:
    assert blotted("key abc-123-xyz", parts_of(["Basic abc-123-xyz"])) == "key ***"


def test_identifier_and_excerpt_are_blotted_and_cut_behind_that() -> None:
    answer = HttpAnswer(200, {"request-id": f"id {SECRET}"}, json.dumps({"id": SECRET}).encode())
    reply = classify(NONE, answer, now=datetime.now(UTC), hide=(SECRET,))
    assert "abc" not in reply.provider_id + reply.excerpt
    assert "***" in reply.excerpt
    long = b"x" * (EXCERPT_CHARACTERS - 4) + SECRET.encode()
    assert excerpt(long, hide=(SECRET,)) == "x" * (EXCERPT_CHARACTERS - 4) + "***"

"""The text by which a producer names its event to readers elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from projectionist.core.stream_token import StreamToken, TokenError, birth

MADE = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.mark.parametrize("stream", ["SHOP", "shop-2:eu", "ä"])
def test_what_is_written_is_read_as_it_was(stream: str) -> None:
    token = StreamToken(stream, birth(MADE), 4711)
    assert StreamToken.parse(str(token)) == token


def test_a_stream_made_anew_has_another_birth_and_no_time_zone_changes_it() -> None:
    token = StreamToken("SHOP", birth(MADE), 1)
    assert token.is_of(MADE.astimezone(timezone(timedelta(hours=5))))
    assert not token.is_of(MADE + timedelta(microseconds=1))
    assert StreamToken("SHOP", "", 1).is_of(MADE), "it was not said"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SHOP",
        "SHOP:1",
        "SHOP:1f0c9a2e:",
        "SHOP:1f0c9a2e:0",
        "SHOP:1f0c9a2e:-1",
        "SHOP:1f0c9a2e:1\n",
        "SHOP:1f0c9a2e:٣",
        "SHOP:1f0c9a2e:99999999999999999999",
        "SHOP:1F0C9A2E:1",
        "SHOP.>:1f0c9a2e:1",
        ":1f0c9a2e:1",
        "SHOP::1",
    ],
)
def test_what_is_no_token_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(TokenError, match="stream:created-hash:sequence"):
        StreamToken.parse(text)

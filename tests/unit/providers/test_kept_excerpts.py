"""Of which answers of a provider the beginning is kept."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.outbox import made, scripted

from projectionist.outbox.providers import Outcome, Reply
from projectionist.outbox.providers.runtime import _storable


@pytest.mark.parametrize(
    ("setting", "sent", "refused"),
    [({}, "", "it says"), ({"excerpt": "none"}, "", ""), ({"excerpt": "all"}, "it says", "it says")],
)
def test_of_which_answers_an_excerpt_is_kept(setting: dict[str, Any], sent: str, refused: str) -> None:
    provider = made(scripted(), **setting)
    for outcome, kept in ((Outcome.SENT, sent), (Outcome.REFUSED, refused), (Outcome.UNKNOWN, refused)):
        found = _storable(provider, Reply(outcome=outcome, excerpt="it says", provider_id="ch_1"))
        assert (found.excerpt, found.provider_id) == (kept, "ch_1")

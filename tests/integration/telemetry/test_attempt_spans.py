"""The span of an attempt: which host it says, and what a provider of a user's own can do to it."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.support.outbox import scripted
from tests.support.spans import Kept, attributes

from projectionist.core.circuit_breaker import Circuit
from projectionist.core.states import IntentState
from projectionist.outbox.providers import Outcome, Reply
from projectionist.outbox.providers.base import ProviderContext, Request
from projectionist.outbox.providers.settings import ProviderSettings
from projectionist.outbox.relay import attempt_spans
from projectionist.outbox.relay.intent_store import LeasedIntent

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def leased() -> LeasedIntent:
    request = Request(
        key="k", provider="stub", destination="stub", intent="Receipt", body=b"{}", traceparent=PARENT
    )
    return LeasedIntent(1, uuid4(), IntentState.LEASED, 1, 0, False, None, 0.0, True, Circuit(), request)


@pytest.mark.parametrize(("host", "said"), [("mail.example", "mail.example"), (None, None)])
def test_an_attempt_names_the_host_where_its_provider_knows_it(
    kept: Kept, host: str | None, said: str | None
) -> None:
    class Knows(scripted()):  # type: ignore[misc]  # a class made for this test
        def host(self, request: Request) -> str | None:
            return host

    one = leased()
    attempt_spans.begin(one, Knows("stub", ProviderSettings(), ProviderContext()))
    attempt_spans.end(one, Reply(outcome=Outcome.SENT))
    (span,) = kept.named("send stub")
    assert attributes(span).get("server.address") == said


def test_a_provider_that_fails_to_name_its_host_is_asked_to_send_all_the_same(kept: Kept) -> None:
    class Fails(scripted()):  # type: ignore[misc]  # a class made for this test
        def host(self, request: Request) -> str | None:
            raise ValueError(request.destination)

    one = leased()
    attempt_spans.begin(one, Fails("stub", ProviderSettings(), ProviderContext()))
    attempt_spans.end(one, Reply(outcome=Outcome.SENT))
    (span,) = kept.named("send stub")
    assert "server.address" not in attributes(span)
    assert span.status.is_unset

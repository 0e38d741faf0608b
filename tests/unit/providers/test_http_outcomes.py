"""What an answer means, profile by profile: one table."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from projectionist.core.errors import SettingsError
from projectionist.outbox.providers.http_outcomes import HttpAnswer, classify
from projectionist.outbox.providers.profiles import (
    DAY,
    IETF_DRAFT,
    NATS,
    NONE,
    PROFILES,
    RESEND,
    SMTP,
    STANDARD_WEBHOOKS,
    STRIPE_V1,
    STRIPE_V2,
    Delivery,
    Profile,
    Signal,
    UnknownPolicy,
    check_schedule,
    horizon,
    recourse,
)
from projectionist.outbox.providers.reply import Outcome, clipped, excerpt, healthy

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
O = Outcome  # noqa: E741 - one letter keeps the table readable
MISMATCH_STRIPE = b'{"error": {"type": "idempotency_error"}}'
IN_USE = b'{"error": {"code": "idempotency_key_in_use"}}'
INVALID = b'{"name": "invalid_idempotent_request"}'
CONCURRENT = b'{"name": "concurrent_idempotent_requests"}'


@pytest.mark.parametrize(
    ("profile", "status", "body", "headers", "outcome"),
    [
        (NONE, 200, b"", {}, O.SENT),
        (NONE, 204, b"", {}, O.SENT),
        (NONE, 301, b"", {"location": "http://10.0.0.1/"}, O.REFUSED),
        (NONE, 307, b"", {}, O.REFUSED),
        (NONE, 400, b"", {}, O.REFUSED),
        (NONE, 401, b"", {}, O.RETRY),
        (NONE, 403, b"", {}, O.REFUSED),
        (NONE, 404, b"", {}, O.REFUSED),
        (NONE, 407, b"", {}, O.RETRY),
        (NONE, 408, b"", {}, O.RETRY),
        (NONE, 409, b"", {}, O.REFUSED),
        (NONE, 410, b"", {}, O.REFUSED),
        (NONE, 422, b"", {}, O.REFUSED),
        (NONE, 425, b"", {}, O.RETRY),
        (NONE, 429, b"", {}, O.RETRY),
        (NONE, 500, b"", {}, O.UNKNOWN),
        (NONE, 502, b"", {}, O.UNKNOWN),
        (NONE, 503, b"", {}, O.RETRY),
        (NONE, 504, b"", {}, O.UNKNOWN),
        (NONE, 599, b"", {}, O.UNKNOWN),
        (NONE, 101, b"", {}, O.UNKNOWN),
        (STRIPE_V1, 200, b"", {"idempotent-replayed": "true"}, O.SENT),
        (STRIPE_V1, 400, MISMATCH_STRIPE, {}, O.MISMATCH),
        (STRIPE_V1, 400, b'{"error": {"type": "invalid_request_error"}}', {}, O.REFUSED),
        (STRIPE_V1, 402, b'{"error": {"type": "card_error"}}', {}, O.REFUSED),
        (STRIPE_V1, 409, IN_USE, {}, O.IN_FLIGHT),
        (STRIPE_V1, 409, b"", {}, O.IN_FLIGHT),
        (STRIPE_V1, 409, MISMATCH_STRIPE, {}, O.MISMATCH),
        (STRIPE_V1, 429, b"", {}, O.RETRY),
        (STRIPE_V1, 500, b"", {}, O.STICKY),
        (STRIPE_V1, 500, b"", {"stripe-should-retry": "true"}, O.RETRY),
        (STRIPE_V1, 502, b"", {}, O.UNKNOWN),
        (STRIPE_V1, 503, b"", {"stripe-should-retry": "false"}, O.STICKY),
        (STRIPE_V1, 400, b"", {"stripe-should-retry": "false"}, O.REFUSED),
        (STRIPE_V2, 500, b"", {}, O.UNKNOWN),
        (RESEND, 409, INVALID, {}, O.MISMATCH),
        (RESEND, 409, CONCURRENT, {}, O.IN_FLIGHT),
        (RESEND, 409, b'{"name": "something_else"}', {}, O.REFUSED),
        (RESEND, 500, b"", {}, O.UNKNOWN),
        (IETF_DRAFT, 400, b"", {}, O.REFUSED),
        (IETF_DRAFT, 409, b"", {}, O.IN_FLIGHT),
        (IETF_DRAFT, 422, b"", {}, O.MISMATCH),
        (IETF_DRAFT, 500, b"", {}, O.STICKY),
        (STANDARD_WEBHOOKS, 301, b"", {}, O.RETRY),
        (STANDARD_WEBHOOKS, 400, b"", {}, O.RETRY),
        (STANDARD_WEBHOOKS, 404, b"", {}, O.RETRY),
        (STANDARD_WEBHOOKS, 410, b"", {}, O.REFUSED),
        (STANDARD_WEBHOOKS, 500, b"", {}, O.RETRY),
    ],
)
def test_an_answer_has_one_outcome(
    profile: Profile, status: int, body: bytes, headers: dict[str, str], outcome: Outcome
) -> None:
    assert classify(profile, HttpAnswer(status, headers, body), now=NOW).outcome is outcome


def test_one_status_with_two_meanings_and_no_readable_code_is_unknown() -> None:
    assert classify(RESEND, HttpAnswer(409, {}, INVALID[:9], complete=False), now=NOW).outcome is O.UNKNOWN
    assert classify(STRIPE_V1, HttpAnswer(409, {}, b"", complete=False), now=NOW).outcome is O.UNKNOWN


CHAT = msgspec.structs.replace(
    NONE,
    name="chat",
    code_paths=("error", "errors.0.code"),
    retried=(Signal(200, "ratelimited"),),
    refused=(Signal(200, "*"),),
)


@pytest.mark.parametrize(
    ("status", "body", "complete", "outcome"),
    [
        (200, b'{"ok": true}', True, O.SENT),
        (200, b"ok", True, O.SENT),
        (200, b'{"ok": false, "error": "channel_not_found"}', True, O.REFUSED),
        (200, b'{"ok": false, "error": "ratelimited"}', True, O.RETRY),
        (200, b'{"errors": [{"code": "NOT_ALLOWED"}]}', True, O.REFUSED),
        (200, b'{"errors": []}', True, O.SENT),
        (200, b'{"errors": {"0": 7}}', True, O.SENT),
        (200, b'{"ok": false, "err', False, O.UNKNOWN),
        (201, b'{"error": "channel_not_found"}', True, O.SENT),
        (500, b'{"error": "fatal"}', True, O.UNKNOWN),
    ],
)
def test_a_2xx_whose_body_says_that_it_failed_is_what_the_profile_says(
    status: int, body: bytes, complete: bool, outcome: Outcome
) -> None:
    assert classify(CHAT, HttpAnswer(status, {}, body, complete), now=NOW).outcome is outcome


def test_a_status_is_an_answer_although_the_body_was_cut() -> None:
    reply = classify(STRIPE_V1, HttpAnswer(200, {}, b'{"id": ', complete=False), now=NOW)
    assert (reply.outcome, reply.reason) == (O.SENT, "the answer was cut")


def test_a_replay_and_the_providers_own_id_are_evidence() -> None:
    answer = HttpAnswer(200, {"idempotent-replayed": "true", "request-id": "req_1"}, b'{"id": "ch_1"}')
    reply = classify(STRIPE_V1, answer, now=NOW)
    assert (reply.replayed, reply.provider_id) == (True, "ch_1")
    assert classify(STRIPE_V1, HttpAnswer(200, {"request-id": "req_1"}), now=NOW).provider_id == "req_1"


def test_in_flight_waits_for_the_lock_unless_told_otherwise() -> None:
    assert classify(RESEND, HttpAnswer(409, {}, CONCURRENT), now=NOW).after_s == RESEND.lock_s
    assert classify(RESEND, HttpAnswer(409, {"retry-after": "7"}, CONCURRENT), now=NOW).after_s == 7


def test_gone_holds_the_destination_of_a_webhook_and_nothing_else() -> None:
    assert classify(STANDARD_WEBHOOKS, HttpAnswer(410), now=NOW).hold
    assert not classify(NONE, HttpAnswer(410), now=NOW).hold


@pytest.mark.parametrize(
    "body", [b"[" * 60_000, b"\xff\xfe", b'{"error": 7}', b'{"error": {"type": []}}', b"null"]
)
def test_a_body_of_any_kind_is_no_reason_to_fail(body: bytes) -> None:
    assert classify(STRIPE_V1, HttpAnswer(402, {}, body), now=NOW).outcome is O.REFUSED


def test_an_excerpt_can_be_stored_and_shows_no_secret() -> None:
    text = excerpt(b"bad key sk_live_1\x00\x1b[31m \xff" + b"x" * 10_000, hide=("sk_live_1",))
    assert "sk_live_1" not in text
    assert "\0" not in text
    assert "\x1b" not in text
    assert len(text) <= 2000
    assert clipped("\ud800ok") == "ok"


def test_a_provider_that_answers_is_healthy_and_one_that_fails_is_not() -> None:
    assert healthy(classify(NONE, HttpAnswer(400), now=NOW))
    assert not any(healthy(classify(NONE, HttpAnswer(status), now=NOW)) for status in (429, 500, 503))


@pytest.mark.parametrize(
    ("profile", "delivery", "since", "what"),
    [
        (STRIPE_V1, "once", 0.79 * DAY, UnknownPolicy.AGAIN),
        (STRIPE_V1, "once", 0.8 * DAY, UnknownPolicy.RECONCILE),
        (STRIPE_V1, "at-least-once", 0.8 * DAY, UnknownPolicy.RECONCILE),
        (STRIPE_V2, "once", 23 * DAY, UnknownPolicy.AGAIN),
        (NATS, "once", 95, UnknownPolicy.AGAIN),
        (NATS, "once", 97, UnknownPolicy.LOOKUP),
        (SMTP, "once", 0, UnknownPolicy.RECONCILE),
        (NONE, "once", 0, UnknownPolicy.RECONCILE),
        (NONE, "at-least-once", 9e9, UnknownPolicy.AGAIN),
    ],
)
def test_what_to_do_about_an_unknown_outcome(
    profile: Profile, delivery: Delivery, since: float, what: UnknownPolicy
) -> None:
    assert recourse(profile, delivery, since) is what


def test_a_schedule_longer_than_the_memory_is_refused() -> None:
    check_schedule(STRIPE_V1, 0.8 * DAY)
    check_schedule(STRIPE_V1, None)
    check_schedule(NONE, 1e9)
    with pytest.raises(SettingsError, match="at most 69120"):
        check_schedule(STRIPE_V1, 0.81 * DAY)


def test_every_profile_is_dated_and_states_its_limits() -> None:
    for name, profile in PROFILES.items():
        assert profile.name == name
        assert profile.note
        assert profile.checked_on.year >= 2026
        assert bool(profile.memory_s) >= profile.lookup
    assert horizon(STANDARD_WEBHOOKS) == pytest.approx(76 * 3600)

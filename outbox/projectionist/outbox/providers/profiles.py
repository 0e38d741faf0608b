"""Profiles of providers' idempotency. Providers differ in every point, so nothing is assumed.

A profile is evidence with a date: `checked_on` says when the provider's own page (`source`) was last read.
"""

from __future__ import annotations

import enum
from datetime import date
from typing import Literal

import msgspec

from projectionist.core.errors import SettingsError

SAFE_SHARE = 0.8
"""Nothing is sent automatically past this share of the time for which the provider remembers the key."""

HOUR, DAY = 3600.0, 86400.0

Delivery = Literal["once", "at-least-once"]


class Signal(msgspec.Struct, frozen=True):
    """An answer that means something particular: a status, and the provider's code where the status alone is
    ambiguous; "*" is any code."""

    status: int
    code: str = ""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's treatment of a key that is sent twice.

    `memory_s` None: it remembers nothing, so an unknown outcome is never sent again automatically.
    `key_header`: where the key goes; `key_quoted`: as a structured-field string. `code_paths`: where in
    a JSON answer its error codes stand ("errors.0.code"). `mismatch`, `in_flight`, `refused`, `retried`, `sticky`:
    what tells these outcomes, also by a 2xx whose body says that it failed.
    `lock_s`: how long to wait when the key is in flight elsewhere. `final_4xx`: a 4xx is about the request,
    not about the moment. `gone_holds`: 410 closes the destination. `volatile`: what may differ between
    attempts; everything else is frozen at the first.
    """

    name: str
    checked_on: date
    source: str
    key_header: str = ""
    key_quoted: bool = False
    key_limit: int = 255
    memory_s: float | None = None
    encoding: Literal["json", "form"] = "json"
    code_paths: tuple[str, ...] = ()
    mismatch: tuple[Signal, ...] = ()
    in_flight: tuple[Signal, ...] = ()
    retried: tuple[Signal, ...] = ()
    refused: tuple[Signal, ...] = ()
    lock_s: float = 5.0
    sticky: tuple[int, ...] = ()
    retry_header: str = ""
    replay_header: str = ""
    id_paths: tuple[str, ...] = ()
    id_header: str = ""
    final_4xx: bool = True
    gone_holds: bool = False
    lookup: bool = False
    volatile: tuple[str, ...] = ("traceparent", "tracestate")
    note: str = ""


STRIPE_V1 = Profile(
    name="stripe-v1",
    source="https://docs.stripe.com/api/idempotent_requests",
    checked_on=date(2026, 11, 18),
    key_header="Idempotency-Key",
    memory_s=DAY,
    encoding="form",
    code_paths=("error.code", "error.type"),
    mismatch=(Signal(400, "idempotency_error"), Signal(409, "idempotency_error")),
    in_flight=(Signal(409),),
    sticky=(500,),
    retry_header="stripe-should-retry",
    replay_header="idempotent-replayed",
    id_paths=("id",),
    id_header="request-id",
    volatile=("traceparent", "tracestate", "authorization"),
    note="A stored 500 is repeated for this key. Keys live at least 24 h, then the key is new again.",
)
STRIPE_V2 = msgspec.structs.replace(
    STRIPE_V1,
    name="stripe-v2",
    source="https://docs.stripe.com/api-v2-overview#idempotency",
    memory_s=30 * DAY,
    encoding="json",
    sticky=(),
    note="Failed work is driven on by the same key, so a 500 may heal.",
)
RESEND = Profile(
    name="resend",
    source="https://resend.com/docs/dashboard/emails/idempotency-keys",
    checked_on=date(2026, 11, 18),
    key_header="Idempotency-Key",
    key_limit=256,
    memory_s=DAY,
    code_paths=("name",),
    mismatch=(Signal(409, "invalid_idempotent_request"),),
    in_flight=(Signal(409, "concurrent_idempotent_requests"),),
    id_paths=("id",),
    volatile=("traceparent", "tracestate", "authorization"),
    note="One status, 409, with two opposite meanings: the code decides.",
)
IETF_DRAFT = Profile(
    name="ietf-draft",
    source="https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/07/",
    checked_on=date(2026, 11, 18),
    key_header="Idempotency-Key",
    key_quoted=True,
    code_paths=("type", "code"),
    mismatch=(Signal(422),),
    in_flight=(Signal(409),),
    sticky=(500,),
    id_paths=("id",),
    volatile=("traceparent", "tracestate", "authorization"),
    note="How long a key lives is the server's policy: `memory_s` must be set. Errors may be replayed.",
)
STANDARD_WEBHOOKS = Profile(
    name="standard-webhooks",
    source="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
    checked_on=date(2026, 11, 18),
    key_header="webhook-id",
    memory_s=95 * HOUR,
    final_4xx=False,
    gone_holds=True,
    volatile=("traceparent", "tracestate", "webhook-timestamp", "webhook-signature"),
    note="Receivers deduplicate by webhook-id. The suggested schedule runs 76 h, 0.8 of 95 h; the suggested "
    "memory of a receiver is only minutes, so a late repeat may be handled twice.",
)
NATS = Profile(
    name="nats",
    source="https://docs.nats.io/nats-concepts/jetstream/streams#streamconfig",
    checked_on=date(2026, 11, 18),
    key_header="Nats-Msg-Id",
    memory_s=120.0,
    replay_header="publish ack: duplicate",
    lookup=True,
    note="Memory is the stream's duplicate window, read at start; the lookup scans the target subject.",
)
SMTP = Profile(
    name="smtp",
    source="https://www.rfc-editor.org/rfc/rfc5321",
    checked_on=date(2026, 11, 18),
    key_header="Message-ID",
    volatile=(),
    note="A Message-ID deduplicates nowhere reliably. Only an end without an answer after DATA is unknown.",
)
NONE = Profile(
    name="none",
    source="-",
    checked_on=date(2026, 11, 18),
    volatile=("traceparent", "tracestate", "authorization"),
    note="Nothing is assumed: an unknown outcome waits for a person.",
)

PROFILES = {
    profile.name: profile
    for profile in (STRIPE_V1, STRIPE_V2, RESEND, IETF_DRAFT, STANDARD_WEBHOOKS, NATS, SMTP, NONE)
}
"""Every built-in profile by its name in the settings."""


class UnknownPolicy(enum.Enum):
    """A way to resolve an intent that may have been executed."""

    AGAIN = "again"
    LOOKUP = "lookup"
    RECONCILE = "reconcile"


def horizon(profile: Profile) -> float | None:
    """Return the seconds since the first send within which the same key may be sent again by itself; None: never."""
    return None if profile.memory_s is None else profile.memory_s * SAFE_SHARE


def recourse(profile: Profile, delivery: Delivery, since_first_s: float) -> UnknownPolicy:
    """Decide how to resolve an unknown outcome, `since_first_s` seconds after the first attempt whose bytes may
    have left. At-least-once counts only where there is no memory to keep to."""
    limit = horizon(profile)
    if limit is None and delivery == "at-least-once":
        return UnknownPolicy.AGAIN
    if limit is not None and since_first_s < limit:
        return UnknownPolicy.AGAIN
    return UnknownPolicy.LOOKUP if profile.lookup else UnknownPolicy.RECONCILE


def check_schedule(profile: Profile, schedule_to_close_s: float | None) -> None:
    """Refuse a schedule that would go on after the provider may have forgotten the key."""
    limit = horizon(profile)
    if schedule_to_close_s is None or limit is None or schedule_to_close_s <= limit:
        return
    raise SettingsError(
        f"schedule_to_close_s ({schedule_to_close_s:g}) is more than {SAFE_SHARE:.0%} of the "
        f"{profile.memory_s:g} s for which the provider ({profile.name}) remembers a key",
        remedy=f"Set it to at most {limit:g}; later, an intent waits for a person as `reconcile`",
    )

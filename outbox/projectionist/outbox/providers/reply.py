"""Reply: the outcome of an attempt, one of the eight that the relay knows."""

from __future__ import annotations

import enum
import re

import msgspec

from projectionist.outbox.providers.echoed_secrets import blotted

EXCERPT_CHARACTERS = 2000
"""The most that is kept of a provider's answer."""

ID_CHARACTERS = 255
"""The most that is kept of a provider's own identifier."""

_BEYOND = 4096
"""What is read behind an excerpt, so that a secret at its end is known for one."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class Outcome(enum.Enum):
    """The relay does exactly one thing for each."""

    SENT = "sent"
    """The provider has it: now, or since an earlier attempt of the same key."""
    RETRY = "retry"
    """The provider did not do it and may do it later; the same bytes go again, an attempt is counted."""
    REFUSED = "refused"
    """The provider did not do it and never will."""
    IN_FLIGHT = "in_flight"
    """Another request with this key is being executed; ask again later, no attempt is counted."""
    MISMATCH = "mismatch"
    """The provider knows this key with other content: an incident, never answered with a new key."""
    UNKNOWN = "unknown"
    """It may have been done. Only the same key, a lookup or a person can tell."""
    STICKY = "sticky"
    """A failure that the provider will repeat for this key whatever happens: a person decides."""
    NOT_SENT = "not_sent"
    """Certainly nothing was asked of the provider; neither an attempt nor its memory is counted."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one attempt, or of one lookup.

    `reason` is ours and safe to log; `excerpt` is the provider's text, stored but never logged. `status` is
    the provider's own code ("409", "550 5.1.1"). `after_s`: the wait that the provider asked for, unclamped.
    `replayed`: the provider says this is the result of an earlier attempt. `hold`: the destination takes
    no intents any more, or is not set up; all for it wait until an operator mends that. `ours`: the destination
    had no part in the failure, so that its circuit does not count it.
    """

    outcome: Outcome
    reason: str = ""
    status: str = ""
    provider_id: str = ""
    excerpt: str = ""
    after_s: float | None = None
    replayed: bool = False
    hold: bool = False
    ours: bool = False
    took_s: float = 0.0


HEALTHY = frozenset({Outcome.SENT, Outcome.REFUSED, Outcome.IN_FLIGHT, Outcome.MISMATCH, Outcome.STICKY})


def healthy(reply: Reply) -> bool:
    """Return True where the provider is up, as a circuit breaker sees it: it answered, be it with a refusal."""
    return reply.outcome in HEALTHY


def clipped(text: str, limit: int = EXCERPT_CHARACTERS) -> str:
    """Cut `text` to `limit`, without characters that PostgreSQL cannot store or a terminal would obey."""
    text = text[:limit]
    return text if text.isprintable() else _UNPRINTABLE.sub("", text)


def excerpt(body: bytes, *, hide: tuple[str, ...] = ()) -> str:
    """Cut a bounded, storable excerpt of a provider's answer; our secrets, if it echoes them, are blotted out."""
    read = EXCERPT_CHARACTERS * 4 + _BEYOND
    return clipped(blotted(body[:read].decode("utf-8", "replace"), hide))

"""From an HTTP answer to an outcome, by the provider's profile. Pure; one table of tests says all of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from projectionist.core.retry_policy import retry_after
from projectionist.outbox.providers.echoed_secrets import blotted
from projectionist.outbox.providers.profiles import Profile, Signal
from projectionist.outbox.providers.reply import Outcome, Reply, excerpt


class HttpAnswer(msgspec.Struct, frozen=True):
    """A response: header names in lower case; `complete` is false if the body was cut, by our limit or by the
    connection."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""
    complete: bool = True


_PASSING = {
    401: "the credentials were refused",
    407: "the proxy refused the credentials",
    408: "the provider waited too long for the request",
    425: "too early",
    429: "too many requests",
    503: "not available",
}
"""Answers that say the request was not acted on, for a reason that is not in it."""


def classify(profile: Profile, answer: HttpAnswer, *, now: datetime, hide: tuple[str, ...] = ()) -> Reply:
    """Turn an answer into a reply, by a profile. `hide`: secrets to blot out of excerpt and identifier."""
    content = _decoded(answer.body)
    outcome, reason = _outcome(profile, answer, _codes(profile, content))
    asked = retry_after(answer.headers.get("retry-after", ""), now)
    return Reply(
        outcome=outcome,
        reason=reason,
        status=str(answer.status),
        provider_id=blotted(_identifier(profile, answer, content), hide),
        excerpt=excerpt(answer.body, hide=hide),
        after_s=profile.lock_s if outcome is Outcome.IN_FLIGHT and asked is None else asked,
        replayed=answer.headers.get(profile.replay_header, "").lower() == "true",
        hold=profile.gone_holds and answer.status == 410,
    )


def _outcome(profile: Profile, answer: HttpAnswer, codes: set[str]) -> tuple[Outcome, str]:
    status = answer.status
    special = _special(profile, answer, codes)
    if special is not None:
        return special
    if 200 <= status < 300:
        return Outcome.SENT, "" if answer.complete else "the answer was cut"
    retry = answer.headers.get(profile.retry_header, "").lower() if profile.retry_header else ""
    if retry == "true" and status >= 400:
        return Outcome.RETRY, "the provider asks for another try"
    if status in profile.sticky or (retry == "false" and status >= 500):
        return Outcome.STICKY, "this failure is repeated for this key"
    if status in _PASSING:
        return Outcome.RETRY, _PASSING[status]
    if status == 410 and profile.gone_holds:
        return Outcome.REFUSED, "the destination is gone"
    if not profile.final_4xx and status >= 300:
        return Outcome.RETRY, "not accepted"
    return _plain(status)


def _plain(status: int) -> tuple[Outcome, str]:
    if 300 <= status < 400:
        return Outcome.REFUSED, "a redirect, which is never followed"
    if 400 <= status < 500:
        return Outcome.REFUSED, "refused"
    return Outcome.UNKNOWN, "failed, perhaps after it was done"


def _special(profile: Profile, answer: HttpAnswer, codes: set[str]) -> tuple[Outcome, str] | None:
    """Return the outcome that a signal of the profile names; UNKNOWN where the code that decides cannot be read."""
    if _named(profile.mismatch, answer.status, codes):
        return Outcome.MISMATCH, "the provider knows this key with other content"
    signals = profile.mismatch + profile.in_flight + profile.retried + profile.refused
    ambiguous = any(signal.status == answer.status and signal.code for signal in signals)
    if ambiguous and not codes and not answer.complete:
        return Outcome.UNKNOWN, "the answer was cut before the code that explains it"
    if _named(profile.in_flight, answer.status, codes):
        return Outcome.IN_FLIGHT, "this key is being executed elsewhere"
    if _named(profile.retried, answer.status, codes):
        return Outcome.RETRY, "the provider says that it failed for now"
    if _named(profile.refused, answer.status, codes):
        return Outcome.REFUSED, "the provider says that it failed"
    return None


def _named(signals: tuple[Signal, ...], status: int, codes: set[str]) -> bool:
    return any(
        signal.status == status
        and (not signal.code or signal.code in codes or (signal.code == "*" and bool(codes)))
        for signal in signals
    )


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _at(content: Any, path: str) -> str:
    for step in path.split("."):
        if isinstance(content, list) and step.isdigit():
            content = next(iter(content[int(step) :][:1]), None)
        elif isinstance(content, dict):
            content = content.get(step)
        else:
            return ""
    return content if isinstance(content, str) else ""


def _codes(profile: Profile, content: Any) -> set[str]:
    return {code for path in profile.code_paths if (code := _at(content, path))}


def _identifier(profile: Profile, answer: HttpAnswer, content: Any) -> str:
    found = next((value for path in profile.id_paths if (value := _at(content, path))), "")
    return found or answer.headers.get(profile.id_header, "")

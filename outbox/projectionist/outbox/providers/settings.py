"""The section `[providers.NAME]`: common keys, strict decoding, and the providers built from it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from projectionist.core.backoff import Retry, Seconds
from projectionist.core.breaker import BreakerPolicy
from projectionist.core.errors import SettingsError
from projectionist.outbox.providers.profiles import Delivery

S = TypeVar("S", bound="ProviderSettings")


class ProviderRetry(Retry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`schedule_to_close_s`: the time after the first send in which all tries must lie. `non_retryable`:
    statuses that are final although they look passing ("503")."""

    schedule_to_close_s: Seconds | None = None
    non_retryable: tuple[str, ...] = ()


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every provider has.

    `delivery`: "once" leaves an unknown outcome to the profile, then to a person; "at-least-once" sends again
    where the profile has no memory, and so may do things twice. `concurrency`: attempts at once in one relay;
    `rate_per_s` and `burst`: for all relays together.
    """

    delivery: Delivery = "once"
    timeout_s: Seconds = 30.0
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 8
    rate_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    burst: Annotated[int, msgspec.Meta(ge=1)] = 1
    retry: ProviderRetry = ProviderRetry()
    breaker: BreakerPolicy = BreakerPolicy()


def decode(name: str, raw: Mapping[str, Any], kind: type[S]) -> S:
    """The section `[providers.<name>]` as `kind`; what it does not know is an error that says what it knows.

    Text is taken for numbers and booleans too, since the environment holds nothing else.
    """
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    unknown = sorted(set(raw) - set(known))
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, n=1)
        raise SettingsError(
            f"[providers.{name}] has the unknown key {unknown[0]!r}",
            remedy=f"Did you mean {close[0]!r}?" if close else f"Allowed: {', '.join(sorted(known))}",
        )
    try:
        return msgspec.convert(raw, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"[providers.{name}]: {error}", remedy=_remedy(str(error))) from None


def _remedy(message: str) -> str:
    if message.startswith("Expected `object`, got `str`"):
        return 'A secret is never written here: name its place, { env = "NAME" } or { file = "PATH" }'
    return "docs/providers.md lists the keys"

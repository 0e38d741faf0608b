"""The keys that every section `[providers.NAME]` has."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.core.retry_policy import RetryPolicy, Seconds
from projectionist.outbox.providers.profiles import Delivery

Excerpts = Literal["failures", "none", "all"]


class ProviderRetry(RetryPolicy, frozen=True, kw_only=True):
    """`schedule_to_close_s`: the time after the first send in which all tries must lie. `non_retryable`:
    statuses that are final although they look passing ("503")."""

    initial_s: Seconds = 1.0
    maximum_s: Seconds = 300.0
    schedule_to_close_s: Seconds | None = None
    non_retryable: tuple[str, ...] = ()


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of every provider.

    `delivery`: "once" leaves an unknown outcome to the profile, then to a person; "at-least-once" sends again
    where the profile has no memory, and so may execute an intent twice. `concurrency`: attempts at once in one relay;
    `rate_per_s` and `burst`: for all relays together. `excerpt`: of which answers the beginning is kept.
    """

    delivery: Delivery = "once"
    timeout_s: Seconds = 30.0
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 8
    excerpt: Excerpts = "failures"
    rate_per_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    burst: Annotated[int, msgspec.Meta(ge=1)] = 1
    retry: ProviderRetry = ProviderRetry()
    breaker: BreakerPolicy = BreakerPolicy()

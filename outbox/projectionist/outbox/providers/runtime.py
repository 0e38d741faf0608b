"""Opens providers from factories and settings, and guards every attempt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import msgspec

from projectionist.core.settings.settings import Settings
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import RAISED, is_cancelled, is_ours
from projectionist.outbox.providers.base import (
    TOO_LATE,
    NotReady,
    Provider,
    ProviderContext,
    RenderError,
    Request,
)
from projectionist.outbox.providers.profiles import check_schedule
from projectionist.outbox.providers.reply import ID_CHARACTERS, Outcome, Reply, clipped
from projectionist.outbox.providers.settings import ProviderRetry

log = logging.getLogger("projectionist.outbox")

AGAIN_S = 1.0
"""Seconds between two tries to open a provider that was not ready."""
_GRACE_S = 1.0
"""How long a provider that keeps its own deadline may overrun it before it is cut off."""


@asynccontextmanager
async def running(
    factories: Mapping[str, type[Provider]], settings: Settings, site: ProviderContext
) -> AsyncIterator[dict[str, Provider]]:
    """Build every provider of an App from its section `[providers.NAME]`, open it, and close it at the end.

    Raises SettingsError for a key that is wrong, and for a schedule that outlives the provider's memory.
    """
    async with AsyncExitStack() as stack:
        providers = {}
        for name, factory in factories.items():
            provider = factory(name, settings.provider(name, factory.Settings), site)
            stack.push_async_callback(provider.close)
            await _opened(provider)
            check_schedule(provider.profile, provider.settings.retry.schedule_to_close_s)
            providers[name] = provider
        yield providers


async def _opened(provider: Provider) -> None:
    logged = ""
    while True:
        try:
            return await provider.open()
        except NotReady as error:
            if logged != error.message:
                logged = error.message
                log.warning("%s; waiting for it", error)
                announce("provider.waiting")
        await anyio.sleep(AGAIN_S)


def prepare(provider: Provider, request: Request) -> bytes | Reply:
    """Render the wire bytes of the first attempt, or the reply that settles an intent which cannot be rendered."""
    try:
        return provider.render(request)
    except RenderError as error:
        return _unrenderable(error)
    except RAISED as error:  # a provider is the user's code: its bug is one intent's fate, not the relay's
        if is_ours(error):
            raise
        return Reply(outcome=Outcome.REFUSED, reason=f"rendering raised {type(error).__name__}")


async def attempt(provider: Provider, request: Request) -> Reply:
    """Send once and return the reply: a provider's error is never raised, its deadline never overrun.

    Silence past the deadline and errors of a provider are UNKNOWN, but for a RenderError, by which it says that
    nothing left. Texts are cut to their storable length.
    """
    if request.too_late():
        return TOO_LATE
    began = time.monotonic()
    reply = Reply(outcome=Outcome.UNKNOWN, reason=f"no reply within {request.timeout_s:g} s")
    try:
        # Not a cancel scope, which costs three times as much.
        async with asyncio.timeout(request.timeout_s + _GRACE_S) as deadline:
            reply = await provider.send(request)
    except RAISED as error:  # a provider is the user's code; after a call the outcome is unknown
        if is_cancelled(error):
            raise
        if not deadline.expired():
            reply = _raised(error)
    outcome = _final(reply, provider.settings.retry)
    return _storable(provider, reply, outcome=outcome, took_s=time.monotonic() - began)


def begin_attempt(provider: Provider, request: Request) -> asyncio.Future[Reply] | None:
    """Return the reply of an attempt that is on its way without a task, or None: then `attempt` makes it."""
    try:
        return provider.begin(request)
    except Exception as error:  # noqa: BLE001 - a provider is the user's code; after a call the outcome is unknown
        failed: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed


def result_of(provider: Provider, future: asyncio.Future[Reply]) -> Reply:
    """Return the reply of an attempt that `begin_attempt` began, as `attempt` would."""
    error = future.exception()
    if error is not None:
        return _raised(error)
    reply = future.result()
    return _storable(provider, reply, outcome=_final(reply, provider.settings.retry))


async def lookup_hints(provider: Provider, requests: Sequence[Request]) -> list[str | None]:
    """Return the provider's hints before the first attempt of each, for a later lookup; None where it cannot."""
    noted: list[str | None] = [None] * len(requests)
    with anyio.move_on_after(provider.settings.timeout_s):
        for index, request in enumerate(requests):
            try:
                noted[index] = await provider.lookup_hint(request)
            except RAISED as error:  # a provider is the user's code; without a hint a lookup finds less
                if is_cancelled(error):
                    raise
                return noted
    return noted


async def lookup(provider: Provider, request: Request) -> Reply:
    """Look an intent up, and return the reply in every case. RETRY is a lookup that could not be made now."""
    reply = Reply(outcome=Outcome.RETRY, reason="the lookup took too long")
    with anyio.move_on_after(request.timeout_s + _GRACE_S):
        try:
            reply = await provider.lookup(request)
        except RAISED as error:  # a provider is the user's code
            if is_cancelled(error):
                raise
            reply = Reply(outcome=Outcome.RETRY, reason=f"the lookup raised {type(error).__name__}")
    return _storable(provider, reply)


def _raised(error: BaseException) -> Reply:
    if isinstance(error, RenderError):
        return _unrenderable(error)
    return Reply(outcome=Outcome.UNKNOWN, reason=f"the provider raised {type(error).__name__}")


def _unrenderable(error: RenderError) -> Reply:
    return Reply(outcome=Outcome.REFUSED, reason=clipped(f"cannot be rendered: {error}"))


def _final(reply: Reply, policy: ProviderRetry) -> Outcome:
    final = reply.outcome is Outcome.RETRY and reply.status in policy.non_retryable
    return Outcome.REFUSED if final else reply.outcome


def _storable(provider: Provider, reply: Reply, **changed: Any) -> Reply:
    kept = provider.settings.excerpt
    is_kept = kept == "all" or (kept == "failures" and reply.outcome is not Outcome.SENT)
    return msgspec.structs.replace(
        reply,
        reason=clipped(reply.reason),
        status=clipped(reply.status, 64),
        provider_id=clipped(reply.provider_id, ID_CHARACTERS),
        excerpt=clipped(reply.excerpt) if is_kept else "",
        **changed,
    )

"""`check_provider(world)`: whatever a relay goes through with it, a provider executes a key once and replies truly."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeAlias
from unittest import SkipTest

import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.outbox.providers import Outcome, Reply, Request
from projectionist.outbox.providers.runtime import attempt
from projectionist.testing.providers import World, first_request

try:
    from hypothesis import Phase, given, settings
    from hypothesis import strategies as st
except ImportError as error:
    raise ProjectionistError(
        "check_provider draws what happens with Hypothesis, which is not installed",
        remedy="pip install hypothesis",
    ) from error

__all__ = ["check_provider"]

Steps: TypeAlias = Sequence[tuple[int, str]]
"""What happens in turn, each to one of a few keys."""
TIMEOUT_S = 0.5
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["sent", "answer lost", "refused", "too late", "restarted"])
    ),
    min_size=1,
    max_size=8,
)


def check_provider(world: Callable[[], AbstractAsyncContextManager[World]]) -> None:
    """Check a provider with courses of attempts that Hypothesis draws, in a new `world` each.

    Attempts at several keys are mixed, answers get lost, requests are refused or come too late, the provider is closed
    and opened again, and a relay that has died tries again what it had not recorded. AssertionError with the shortest
    course in which a key was executed twice, or in which a reply or a lookup does not tell the truth.
    """

    phases = [one for one in settings().phases if one is not Phase.explain]
    with asyncio.Runner() as runner:

        def check(steps: Steps) -> None:
            runner.run(_lived_through(world, steps))

        given(STEPS)(settings(database=None, deadline=None, phases=phases)(check))()


async def _lived_through(world: Callable[[], AbstractAsyncContextManager[World]], steps: Steps) -> None:
    told: list[str] = []
    outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
    async with world() as outside:
        requests: dict[str, Request] = {}
        for number, what in steps:
            key = f"k-{number}"
            if what == "restarted":
                await outside.provider.close()
                await outside.provider.open()
                told.append("the provider is closed and opened again")
                continue
            if not _may_be_tried(outside, outcomes[key]):
                continue
            if key not in requests:
                requests[key] = await first_request(outside, key, timeout_s=TIMEOUT_S)
            reply = await _tried(outside, requests[key], what)
            outcomes[key].append(reply.outcome)
            told.append(f"{key} {what}: {reply.outcome.value}")
        for key, request in requests.items():
            if wrong := await _wrong(outside, request, outcomes[key]):
                raise AssertionError("\n  ".join([f"{key} {wrong}, after", *told]))


def _may_be_tried(outside: World, before: Sequence[Outcome]) -> bool:
    """Return whether a relay would try: what was refused never, what may have been executed where the key is known."""
    if Outcome.REFUSED in before:
        return False
    done = Outcome.SENT in before or Outcome.UNKNOWN in before
    return not done or outside.provider.profile.memory_s is not None


async def _tried(outside: World, request: Request, what: str) -> Reply:
    """Have an attempt made in which this happens, where the outside can do it."""
    if what == "too late":  # asked directly: the guard around `send` would not even call it
        return await outside.provider.send(msgspec.structs.replace(request, not_after=clock.now() - 1))
    with suppress(SkipTest):
        if what == "answer lost":
            await outside.lose_the_next_answer()
        elif what == "refused" and not await outside.executions(request.key):
            await outside.refuse_the_next()
    return await attempt(outside.provider, request)


async def _wrong(outside: World, request: Request, outcomes: Sequence[Outcome]) -> str | None:
    """Compare what was executed with what was said of it."""
    times = await outside.executions(request.key)
    if times > 1:
        return f"was executed {times} times"
    if not times and Outcome.SENT in outcomes:
        return "is said to be sent, and was not executed"
    if times and set(outcomes) <= {Outcome.NOT_SENT, Outcome.REFUSED}:
        return "was executed, and no reply says that it may have been"
    if outside.provider.profile.lookup:
        found = (await outside.provider.lookup(request)).outcome
        if found in (Outcome.SENT, Outcome.NOT_SENT) and (found is Outcome.SENT) != bool(times):
            return f"was executed {times} times, and a lookup says {found.value}"
    return None

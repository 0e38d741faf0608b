"""A suite for a provider of one's own: say how its outside is reached, and pytest runs every rule on it.

class TestOurGateway(ProviderContract):
    @asynccontextmanager
    async def world(self):
        async with gateway_sandbox() as sandbox:
            yield SandboxWorld(OurGateway("gateway", settings, Site()), sandbox)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, NoReturn
from unittest import SkipTest

import msgspec

from projectionist.core import clock
from projectionist.outbox.providers import Outcome, Provider, Reply, Request
from projectionist.outbox.providers.reply import EXCERPT_CHARACTERS
from projectionist.outbox.providers.runtime import attempt, prepare

__all__ = ["ProviderContract", "World"]


_PARENT = f"01-{'a' * 32}-{'b' * 16}-01-"
_TRACES = [f"{_PARENT}\x1fx", f"{_PARENT}\nX-Evil: 1", f"{_PARENT}é", f"{_PARENT}\0", _PARENT + "x" * 200_000]
"""Trace parents that some producer may send, and no header may carry."""


class World:
    """A provider and the outside it talks to. Override what yours can do; the rest is skipped."""

    provider: Provider
    body = b'{"amount":100,"order_id":"o-1"}'
    """The canonical JSON of an ordinary intent."""
    destination = ""
    """Where it goes; empty: the provider's own name."""

    async def executions(self, key: str) -> int:
        """Return how often the outside has executed this key. Every world has to know."""
        raise NotImplementedError

    async def frozen_parts(self, key: str) -> list[bytes]:
        """Return what arrived for this key, attempt by attempt, without what the profile calls volatile."""
        _skip("this world does not show what arrived")

    async def lose_the_next_answer(self) -> None:
        """Execute the next request, and never let its answer arrive."""
        _skip("this world loses no answers")

    async def refuse_the_next(self) -> None:
        """Refuse the next request for good, and do not execute it."""
        _skip("this world refuses nothing")

    async def go_away(self) -> None:
        """Let no request reach the outside from now on."""
        _skip("this world is always there")


class ProviderContract:
    """The rules a relay relies on. Subclass it in a test module and give it a `world`."""

    def world(self) -> AbstractAsyncContextManager[World]:
        """Make a fresh outside and an opened provider, for one test."""
        raise NotImplementedError

    def test_one_send_is_executed_once_and_reported_as_sent(self) -> None:
        async def rule(world: World) -> None:
            request = await first_request(world, "k-sent")
            _same((await attempt(world.provider, request)).outcome, Outcome.SENT)
            _same(await world.executions("k-sent"), 1)

        self._on_a_world(rule)

    def test_rendering_again_gives_the_same_bytes(self) -> None:
        async def rule(world: World) -> None:
            _same(_rendered(world, "k-render").wire, _rendered(world, "k-render").wire)

        self._on_a_world(rule)

    def test_a_repeat_of_a_remembered_key_is_not_executed_again(self) -> None:
        async def rule(world: World) -> None:
            _needs(world.provider.profile.memory_s is not None, "the profile has no memory")
            request = await first_request(world, "k-repeat")
            await attempt(world.provider, request)
            _same((await attempt(world.provider, request)).outcome, Outcome.SENT)
            _same(await world.executions("k-repeat"), 1)

        self._on_a_world(rule)

    def test_every_attempt_sends_the_same_frozen_part(self) -> None:
        async def rule(world: World) -> None:
            request = await first_request(world, "k-frozen")
            for trace in ("a", "b"):
                parent = f"00-{trace * 32}-{trace * 16}-01"
                await attempt(world.provider, msgspec.structs.replace(request, traceparent=parent))
            first, second = await world.frozen_parts("k-frozen")
            _same(second, first)

        self._on_a_world(rule)

    def test_a_trace_that_cannot_travel_is_no_obstacle(self) -> None:
        async def rule(world: World) -> None:
            for number, parent in enumerate(_TRACES):
                key = f"k-trace-{number}"
                request = await first_request(world, key, traceparent=parent, tracestate=f"a={parent}")
                _same((await attempt(world.provider, request)).outcome, Outcome.SENT)
                _same(await world.executions(key), 1)

        self._on_a_world(rule)

    def test_what_could_not_leave_is_never_called_unknown(self) -> None:
        async def rule(world: World) -> None:
            request = msgspec.structs.replace(await first_request(world, "k-garbage"), wire=b"\xff\0\r\n")
            _same((await attempt(world.provider, request)).outcome is Outcome.UNKNOWN, False)

        self._on_a_world(rule)

    def test_a_lost_answer_is_unknown(self) -> None:
        async def rule(world: World) -> None:
            request = await first_request(world, "k-lost", timeout_s=0.5)
            await world.lose_the_next_answer()
            _same((await attempt(world.provider, request)).outcome, Outcome.UNKNOWN)
            _same(await world.executions("k-lost"), 1)

        self._on_a_world(rule)

    def test_after_a_lost_answer_the_same_key_finds_out(self) -> None:
        async def rule(world: World) -> None:
            _needs(world.provider.profile.memory_s is not None, "the profile has no memory")
            request = await first_request(world, "k-again", timeout_s=0.5)
            await world.lose_the_next_answer()
            await attempt(world.provider, request)
            again = msgspec.structs.replace(request, timeout_s=10.0)
            _same((await attempt(world.provider, again)).outcome, Outcome.SENT)
            _same(await world.executions("k-again"), 1)

        self._on_a_world(rule)

    def test_a_refusal_is_final_and_executes_nothing(self) -> None:
        async def rule(world: World) -> None:
            request = await first_request(world, "k-refused")
            await world.refuse_the_next()
            _same((await attempt(world.provider, request)).outcome, Outcome.REFUSED)
            _same(await world.executions("k-refused"), 0)

        self._on_a_world(rule)

    def test_when_nobody_is_there_nothing_was_sent(self) -> None:
        async def rule(world: World) -> None:
            request = await first_request(world, "k-away", timeout_s=5.0)
            await world.go_away()
            _same((await attempt(world.provider, request)).outcome, Outcome.NOT_SENT)

        self._on_a_world(rule)

    def test_nothing_leaves_once_the_lease_may_be_over(self) -> None:
        async def rule(world: World) -> None:
            request = await first_request(world, "k-late", not_after=clock.now() - 1)
            # Asked directly: the guard around `send` would not even call it.
            _same((await world.provider.send(request)).outcome, Outcome.NOT_SENT)
            _same(await world.executions("k-late"), 0)

        self._on_a_world(rule)

    def test_a_reply_can_be_stored(self) -> None:
        async def rule(world: World) -> None:
            reply = await attempt(world.provider, await first_request(world, "k-stored"))
            for text in (reply.reason, reply.status, reply.provider_id, reply.excerpt):
                _same("\0" in text or len(text) > EXCERPT_CHARACTERS, False)

        self._on_a_world(rule)

    def test_a_lookup_tells_what_was_executed_from_what_was_not(self) -> None:
        async def rule(world: World) -> None:
            _needs(world.provider.profile.lookup, "the profile has no lookup")
            done, other = await first_request(world, "k-done"), await first_request(world, "k-other")
            await attempt(world.provider, done)
            _same((await world.provider.lookup(done)).outcome, Outcome.SENT)
            _same((await world.provider.lookup(other)).outcome, Outcome.NOT_SENT)

        self._on_a_world(rule)

    def _on_a_world(self, rule: Callable[[World], Awaitable[None]]) -> None:
        async def run() -> None:
            async with self.world() as world:
                await rule(world)

        asyncio.run(run())


def _rendered(world: World, key: str, **more: Any) -> Request:
    request = Request(
        key=key,
        provider=world.provider.name,
        destination=world.destination or world.provider.name,
        intent="Contract",
        body=world.body,
        source="contract",
        id=f"event-of-{key}",
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        **({"timeout_s": 10.0} | more),
    )
    wire = prepare(world.provider, request)
    if isinstance(wire, Reply):
        raise AssertionError(f"the intent could not be rendered: {wire.reason}")
    return msgspec.structs.replace(request, wire=wire)


async def first_request(world: World, key: str, **more: Any) -> Request:
    """Return an intent as a relay hands it over for its first attempt."""
    request = _rendered(world, key, **more)
    return msgspec.structs.replace(request, lookup_hint=await world.provider.lookup_hint(request))


def _same(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"found {found!r}, wanted {wanted!r}")


def _needs(capability: bool, otherwise: str) -> None:
    if not capability:
        _skip(otherwise)


def _skip(reason: str) -> NoReturn:
    raise SkipTest(reason)

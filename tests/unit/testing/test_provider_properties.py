"""`check_provider` passes a provider that keeps its word, and shows one that does not by a short course."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from projectionist.outbox.providers import Outcome, Provider, Reply, Request
from projectionist.outbox.providers.base import ProviderContext
from projectionist.outbox.providers.profiles import NATS, NONE, STRIPE_V2, Profile
from projectionist.outbox.providers.settings import ProviderSettings
from projectionist.testing import check_provider
from projectionist.testing.providers import World


class SoundGateway(Provider):
    """Keeps its word, and loses and refuses what it is told to."""

    profile: Profile = STRIPE_V2

    def __init__(self) -> None:
        super().__init__("gateway", ProviderSettings(), ProviderContext())
        self.done: Counter[str] = Counter()
        self.loses = self.refuses = False

    async def send(self, request: Request) -> Reply:
        if request.too_late():
            return Reply(outcome=Outcome.NOT_SENT)
        if self.refuses:
            self.refuses = False
            return Reply(outcome=Outcome.REFUSED)
        self.execute(request.key)
        if self.loses:
            self.loses = False
            return self.lost()
        return Reply(outcome=Outcome.SENT)

    def execute(self, key: str) -> None:
        if not self.done[key]:
            self.done[key] += 1

    def lost(self) -> Reply:
        return Reply(outcome=Outcome.UNKNOWN)


class ForgetfulGateway(SoundGateway):
    """Has no memory, and says so: nobody asks it twice."""

    profile = NONE

    def execute(self, key: str) -> None:
        self.done[key] += 1


class DoublingGateway(SoundGateway):
    """Has no memory, and says that it has."""

    def execute(self, key: str) -> None:
        self.done[key] += 1


class HopefulGateway(SoundGateway):
    """Takes a lost answer for a request that did not leave."""

    def lost(self) -> Reply:
        return Reply(outcome=Outcome.NOT_SENT)


class BoastfulGateway(SoundGateway):
    """Says that it is done, and does nothing."""

    def execute(self, key: str) -> None:
        pass


class LatecomingGateway(SoundGateway):
    """Does not look at the lease, and denies what it did then."""

    async def send(self, request: Request) -> Reply:
        if request.too_late():
            self.execute(request.key)
        return await super().send(request)


class BlindGateway(SoundGateway):
    """Finds nothing when it looks."""

    profile = NATS

    async def lookup(self, request: Request) -> Reply:
        return Reply(outcome=Outcome.NOT_SENT)


class GatewayWorld(World):
    """A gateway that is its own outside."""

    provider: SoundGateway

    async def executions(self, key: str) -> int:
        return self.provider.done[key]

    async def lose_the_next_answer(self) -> None:
        self.provider.loses = True

    async def refuse_the_next(self) -> None:
        self.provider.refuses = True


def world_of(gateway: type[SoundGateway]) -> Callable[[], AbstractAsyncContextManager[World]]:
    """What makes a world around such a gateway."""

    @asynccontextmanager
    async def world() -> AsyncIterator[World]:
        made = GatewayWorld()
        made.provider = gateway()
        yield made

    return world


@pytest.mark.parametrize("gateway", [SoundGateway, ForgetfulGateway])
def test_a_provider_that_keeps_its_word_passes(gateway: type[SoundGateway]) -> None:
    check_provider(world_of(gateway))


@pytest.mark.parametrize(
    ("gateway", "found"),
    [
        (DoublingGateway, "k-0 was executed 2 times, after\n  k-0 sent: sent\n  k-0 sent: sent"),
        (HopefulGateway, "no reply says that it may have been, after\n  k-0 answer lost: not_sent"),
        (BoastfulGateway, "k-0 is said to be sent, and was not executed, after\n  k-0 sent: sent"),
        (LatecomingGateway, "no reply says that it may have been, after\n  k-0 too late: not_sent"),
        (BlindGateway, "k-0 was executed 1 times, and a lookup says not_sent, after\n  k-0 sent: sent"),
    ],
)
def test_a_provider_that_does_not_is_shown_by_the_shortest_course(
    gateway: type[SoundGateway], found: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        check_provider(world_of(gateway))
    assert str(caught.value).endswith(found)

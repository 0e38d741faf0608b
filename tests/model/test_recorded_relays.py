"""What real relays on a real server read and write is a way through the model, and leads to the same tables."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest
from tests.model.recorded_relays import Recorded, Recording, recording, told_of, ways_through
from tests.model.relay_model import FORGETS, REMEMBERS
from tests.support import outbox
from tests.support.outbox import Outbox, Scripted, Step, answer, execute, execute_in_silence, made, scripted
from tests.support.waiting import eventually

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.outbox.providers import Outcome, Reply, Request
from projectionist.outbox.providers.settings import ProviderRetry
from projectionist.outbox.relay.relay import Relay

INTENTS, HISTORIES = 3, 6
PROFILES = {"remembers": (outbox.REMEMBERS, REMEMBERS), "forgets": (outbox.FORGETS, FORGETS)}
"""What a provider promises, and what the model has instead, whose days are ticks."""
RETRY = ProviderRetry(attempts=3, initial_s=0.001, maximum_s=0.001)
PATIENT = BreakerPolicy(failures=1000)
"""The model knows no circuit."""


async def refuse(provider: Scripted, request: Request) -> Reply:
    """Refuse what was never executed; what was, is answered as then."""
    if provider.executions[request.key]:
        return await execute(provider, request)
    return Reply(outcome=Outcome.REFUSED, status="400")


ANSWERS = [
    execute,
    execute_in_silence,
    answer(Outcome.UNKNOWN, reason="no answer"),
    refuse,
    answer(Outcome.NOT_SENT, reason="nobody is there"),
]


class Sleep:
    """Has an attempt be executed and its answer be late: only when the lease has ended and somebody else has it."""

    def __init__(self, harness: Outbox, told: Recording) -> None:
        self._harness, self._told = harness, told
        self.relays: list[Relay] = []
        self.times = 0
        self.asking = asyncio.Lock()
        """Held by whoever asks the database: it is one connection."""

    async def step(self, provider: Scripted, request: Request) -> Reply:
        """Answer once another lease of the same intent is on record."""
        reply, before = await execute(provider, request), self._leases(request.key)
        async with self.asking:
            await self._harness.end_leases()
        self.times += 1
        while self._leases(request.key) == before:
            for relay in self.relays:
                relay.wake()
            await asyncio.sleep(0.01)
        return reply

    def _leases(self, key: str) -> int:
        number = self._told.keys.index(key)
        return sum(
            one.step == "leases" and one.intent == number for place in self._told.places for one in place
        )


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("profile", PROFILES)
async def test_recorded_relays_are_allowed_by_the_model(
    harness: Outbox, monkeypatch: pytest.MonkeyPatch, profile: str, seed: int
) -> None:
    chance, (real, modelled) = Random(seed), PROFILES[profile]
    provider, lane = scripted(real), [await harness.want(lane="order/1") for _ in range(INTENTS)]
    with recording(monkeypatch, lane) as told:
        sleep = Sleep(harness, told)
        for key in lane:
            provider.script[key] = some_answers(chance, sleep)
        one, other = (made(provider, retry=RETRY, breaker=PATIENT) for _ in range(2))
        async with harness.relaying(one) as first, harness.relaying(other) as second:
            sleep.relays += [first, second]
            await eventually(partial(at_rest, harness, told, sleep))

    found = [(await harness.state(key), provider.executions[key]) for key in lane]
    ends = ways_through(modelled, told.places, INTENTS, sleep.times)
    assert ends, f"the model does not allow {told.places}"
    assert found in [told_of(end) for end in ends]


def some_answers(chance: Random, sleep: Sleep) -> list[Step]:
    """Up to two answers of an intent before it is simply executed."""
    some = [chance.choice(ANSWERS) for _ in range(chance.randrange(3))]
    return [sleep.step, *some] if chance.random() < 0.3 else some


async def at_rest(harness: Outbox, told: Recording, sleep: Sleep) -> bool:
    """Nothing is in hand, and of the lane either nothing is left, or a person has to look at its head."""
    async with sleep.asking:
        states = [await harness.state(key) for key in told.keys]
    open_ = [state for state in states if state not in ("sent", "dead")]
    return not told.in_hand and (not open_ or open_[0] == "reconcile")


LEASED = Recorded("leases", 0, 0, 0, "leased", tried=False)
STARTED = Recorded("starts", 0, 1, 1, "started", tried=True)
SETTLED = Recorded("settles", 0, 1, 1, "sent", tried=True)


def test_a_relay_that_decides_otherwise_is_not_allowed() -> None:
    through = partial(ways_through, REMEMBERS, intents=1, ticks=0)

    assert [told_of(end) for end in through([[LEASED, STARTED, SETTLED]])] == [[("sent", 1)]]
    plants = {
        "sent before its start": [LEASED, SETTLED],
        "another attempt": [LEASED, STARTED._replace(attempt=2), SETTLED],
        "dead without a refusal that counts": [LEASED, STARTED, SETTLED._replace(state="reconcile")],
        "a reply that counts for nothing": [LEASED, STARTED, SETTLED._replace(counts=False)],
        "a lease of what may have been sent": [LEASED._replace(state="unknown"), STARTED, SETTLED],
    }
    for planted in plants.values():
        assert not through([planted])
    assert not through([[LEASED, STARTED], [LEASED]]), "two leases at once"

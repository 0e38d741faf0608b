"""Who gets the room that is free: everybody waits for a look at who waits, and nobody is looked for all the time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from projectionist.core import clock
from projectionist.outbox.relay.concurrency_shares import EARLY, LOOK_S, ConcurrencyShares
from projectionist.outbox.relay.intent_store import LeaseResult

LANES = 5_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    time = SimpleNamespace(s=100.0)
    monkeypatch.setattr(clock, "now", lambda: time.s)
    return time


def under_way(destination: str, count: int) -> list[Any]:
    return [SimpleNamespace(request=SimpleNamespace(destination=destination))] * count


def haul(others: int) -> LeaseResult:
    return LeaseResult([], "", 8, others, 0.0, 0.0)


def test_an_equal_share_is_left_for_one_more_than_are_under_way() -> None:
    shares = ConcurrencyShares(8)
    assert shares.crowd() == []
    shares.take(under_way("slow", 3))
    assert shares.crowd() == []
    shares.take(under_way("slow", 1))
    assert shares.crowd() == ["slow"]
    shares.take(under_way("fast", 2))
    assert shares.crowd() == ["slow", "fast"]
    shares.give_back(under_way("fast", 2))
    assert (shares.crowd(), shares.free) == (["slow"], 4)


def test_others_are_looked_for_at_once_and_where_there_are_none_once_a_second(now: SimpleNamespace) -> None:
    shares = ConcurrencyShares(8)
    assert shares.depth(LANES) == 0, "nobody has his share"
    shares.take(under_way("slow", 8))
    assert shares.depth(LANES) == LANES
    shares.looked(haul(others=0), shares.crowd())
    assert shares.depth(LANES) == 0
    now.s += LOOK_S
    assert shares.depth(LANES) == LANES
    shares.looked(haul(others=2), shares.crowd())
    assert shares.depth(LANES) == LANES, "there may be more"
    shares.looked(haul(others=0), shares.crowd())
    assert shares.depth(LANES) == LANES, "they may stand before"
    shares.looked(haul(others=0), shares.crowd())
    assert shares.depth(LANES) == 0


def test_who_was_part_of_the_crowd_at_the_last_look_is_looked_for_when_he_is_not(
    now: SimpleNamespace,
) -> None:
    shares = ConcurrencyShares(8)
    shares.take(under_way("slow", 4) + under_way("fast", 2))
    shares.looked(haul(others=0), shares.crowd())
    assert shares.depth(LANES) == 0
    shares.give_back(under_way("fast", 2))
    assert shares.depth(LANES) == LANES // EARLY
    shares.looked(haul(others=0), shares.crowd())
    assert shares.depth(LANES) == 0
    now.s += LOOK_S
    assert shares.depth(LANES) == LANES

"""Counts the attempts of one provider under way in one relay, and finds destinations that have their share of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core import clock

if TYPE_CHECKING:
    from projectionist.outbox.relay.intent_store import LeasedIntent, LeaseResult

LOOK_S = 1.0
"""Seconds between two searches of the lanes for destinations outside the crowd, where the first found none."""
EARLY = 10
"""A search before that time goes through so many times fewer lanes."""


class ConcurrencyShares:
    """Room is taken with a lease, and free when the reply is written.

    The destinations under way and one more would each have an equal share. A destination that has that much gets only
    room that no other destination has a use for.
    """

    def __init__(self, most: int, *, look_s: float = LOOK_S) -> None:
        self.free = most
        self._most, self._look_s = most, look_s
        self._taken: Counter[str] = Counter()
        self._look_at = 0.0
        self._passed: frozenset[str] = frozenset()
        """The crowd of the last search that found no other destination: it says nothing about these."""
        self.found = False
        """The last search found others: more of them may stand before the lane that it came to."""

    def take(self, leased: Iterable[LeasedIntent]) -> None:
        """Count these as under way."""
        for each in leased:
            self.free -= 1
            self._taken[each.request.destination] += 1

    def give_back(self, leased: Iterable[LeasedIntent]) -> None:
        """Count these as under way no longer."""
        for each in leased:
            destination = each.request.destination
            self.free += 1
            self._taken[destination] -= 1
            if not self._taken[destination]:
                del self._taken[destination]

    def crowd(self) -> list[str]:
        """Return the destinations that have their share."""
        share = max(1, self._most // (len(self._taken) + 1))
        return [destination for destination, n in self._taken.items() if n >= share]

    def depth(self, lanes: int) -> int:
        """Return how many lanes to search for others than the crowd, which costs a walk over the crowd's: 0 for none.

        Only a few as soon as a destination has less than its share again, since no search included it meanwhile.
        """
        crowd = self.crowd()
        if not crowd:
            return 0
        if clock.now() >= self._look_at:
            return lanes
        return lanes // EARLY if self._passed.difference(crowd) else 0

    def looked(self, result: LeaseResult, crowd: Iterable[str]) -> None:
        """Take in the result of a search for others than the crowd."""
        if not (result.others or self.found):
            self._passed = frozenset(crowd)
            if clock.now() >= self._look_at:
                self._look_at = clock.now() + self._look_s
        elif result.others:
            self._look_at = 0.0
        self.found = result.others > 0

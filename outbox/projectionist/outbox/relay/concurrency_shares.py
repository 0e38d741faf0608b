"""How many attempts of one provider are under way in one relay, and which destinations have their share of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core import clock

if TYPE_CHECKING:
    from projectionist.outbox.relay.intent_store import LeasedIntent, LeaseResult

LOOK_S = 1.0
"""How often lanes are looked through for destinations that wait beside a crowd, where the last look found none."""
EARLY = 10
"""A look before that time goes through so much less."""


class ConcurrencyShares:
    """Room is taken with a lease, and free when what came of it is written.

    The destinations under way and one more would each have an equal share. Whoever has that much goes on only with
    room that no other destination has a use for.
    """

    def __init__(self, most: int) -> None:
        self.free = most
        self._most = most
        self._taken: Counter[str] = Counter()
        self._look_at = 0.0
        self._passed: frozenset[str] = frozenset()
        """The crowd of the last look that found nobody else: of these it says nothing."""
        self.found = False
        """Whether the last look found others: more of them may stand before the lane that it came to."""

    def take(self, leased: Iterable[LeasedIntent]) -> None:
        """These are under way."""
        for each in leased:
            self.free -= 1
            self._taken[each.request.destination] += 1

    def give_back(self, leased: Iterable[LeasedIntent]) -> None:
        """These no longer are."""
        for each in leased:
            destination = each.request.destination
            self.free += 1
            self._taken[destination] -= 1
            if not self._taken[destination]:
                del self._taken[destination]

    def crowd(self) -> list[str]:
        """The destinations that have their share."""
        share = max(1, self._most // (len(self._taken) + 1))
        return [destination for destination, n in self._taken.items() if n >= share]

    def depth(self, lanes: int) -> int:
        """Through how many lanes to look for others than the crowd, which costs a walk over the crowd's: 0 for none.

        Only a few as soon as a destination has less than its share again, since nobody has looked for it meanwhile.
        """
        crowd = self.crowd()
        if not crowd:
            return 0
        if clock.now() >= self._look_at:
            return lanes
        return lanes // EARLY if self._passed.difference(crowd) else 0

    def looked(self, haul: LeaseResult, crowd: Iterable[str]) -> None:
        """This was found by looking for others than the crowd."""
        if not (haul.others or self.found):
            self._passed = frozenset(crowd)
            if clock.now() >= self._look_at:
                self._look_at = clock.now() + LOOK_S
        elif haul.others:
            self._look_at = 0.0
        self.found = haul.others > 0

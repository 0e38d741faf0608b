"""How many attempts of one provider are under way in one relay, and which destinations have their share of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core import clock

if TYPE_CHECKING:
    from projectionist.outbox.store import Haul, Leased

LOOK_S = 1.0
"""How often lanes are looked through for destinations that wait beside a crowd, where the last look found none."""


class Shares:
    """Room is taken with a lease, and free when what came of it is written.

    The destinations under way and one more would each have an equal share. Whoever has that much goes on only with
    room that no other destination has a use for.
    """

    def __init__(self, most: int) -> None:
        self.free = most
        self._most = most
        self._taken: Counter[str] = Counter()
        self._look_at = 0.0
        self.found = False
        """Whether the last look found others: more of them may stand before the lane that it came to."""

    def take(self, leased: Iterable[Leased]) -> None:
        """These are under way."""
        for each in leased:
            self.free -= 1
            self._taken[each.request.destination] += 1

    def give_back(self, leased: Iterable[Leased]) -> None:
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

    def is_to_look(self) -> bool:
        """Whether lanes are to be looked through for others than the crowd: it costs a walk over the crowd's."""
        return clock.now() >= self._look_at and bool(self.crowd())

    def looked(self, haul: Haul) -> None:
        """This was found by looking."""
        self._look_at = 0.0 if haul.others or self.found else clock.now() + LOOK_S
        self.found = haul.others > 0

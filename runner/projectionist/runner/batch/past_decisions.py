"""After a reset, live batches repeat the decisions that were made before it, as a rebuild does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.batch.decisions import Decisions

if TYPE_CHECKING:
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.parked_rows import ParkedRun
    from projectionist.runner.batch.planning import LockedPosition
    from projectionist.runner.batch.types import Batch
    from projectionist.runner.batch.writes import Identity
    from projectionist.runner.decoding.decoder import Decoder
    from projectionist.runner.decoding.delivery import Delivery


class PastDecisions:
    """Repeats what was decided about the events of a batch. Today's decisions act on positions and parked rows."""

    def __init__(self, decisions: Decisions, reader: Decoder) -> None:
        self._decisions = decisions
        self._reader = reader

    def amended(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Return events as decided: with the bytes of an edit, or to be stepped over."""
        return [self._amended(delivery) for delivery in deliveries]

    def behind(self, runs: dict[str, ParkedRun]) -> dict[str, ParkedRun]:
        """Return the same for what is parked."""
        for run in runs.values():
            run.deliveries = self.amended(run.deliveries)
        return runs

    def reached(self, positions: Sequence[LockedPosition]) -> list[LockedPosition]:
        """Return positions behind what was accepted as missing, or as before the beginning."""
        return [
            msgspec.structs.replace(one, version=version) if version != one.version and one.open else one
            for one in positions
            for version in (self._decisions.accepted(one.aggregate, one.version),)
        ]

    def accepted(self, aggregate: str) -> Callable[[int], int]:
        """Say up to where the versions after one were accepted as missing, which may be in the middle of a batch."""
        return partial(self._decisions.accepted, aggregate)

    def winner(self, delivery: Delivery) -> Identity | None:
        """Return whose its version is, where another event has it."""
        return None if self._decisions.holds(delivery) else self._decisions.winner(delivery)

    def _amended(self, delivery: Delivery) -> Delivery:
        if self._decisions.erases(delivery):
            return emptied(delivery)
        delivery = self._decisions.edited(delivery, self._reader)
        if not delivery.discarded and self._decisions.drops(delivery):
            return msgspec.structs.replace(delivery, discarded=True)
        return delivery


def emptied(delivery: Delivery) -> Delivery:
    """Return an erased event that came again without its content, to be stepped over: no table is to hold it anew."""
    bare = {"data": b"", "event": None, "problem": None, "tracestate": None, "baggage": None}
    return msgspec.structs.replace(delivery, discarded=True, **bare)


async def decided(store: InboxStore, reader: Decoder, batch: Batch) -> PastDecisions:
    """Return what was decided about the aggregates and events of a batch."""
    aggregates = {d.aggregate for d in batch.deliveries if d.aggregate is not None}.union(batch.due)
    events = {d.id for d in batch.deliveries}.union(name for _, name in batch.entries)
    return PastDecisions(
        Decisions(await store.rows("select_decisions_for_batch", sorted(aggregates), sorted(events))), reader
    )

"""What one transaction takes in, and what it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.runner.batch.batch_spans import BatchSpans
    from projectionist.runner.batch.retry_policy import Refusal
    from projectionist.runner.batch.writes import BatchWrites, Identity
    from projectionist.runner.decoding.delivery import Delivery, Unreadable


class Batch(msgspec.Struct):
    """Holds what one transaction takes in: new deliveries, what could not be read, and what is due again."""

    deliveries: Sequence[Delivery] = ()
    unreadable: Sequence[Unreadable] = ()
    due: Sequence[str] = ()
    entries: Sequence[Identity] = ()
    foreign: Sequence[int] = ()
    """Messages of subjects that the consumer does not read: on record as settled, and counted."""
    limit: int | None = None
    """How many parked events one aggregate drains; None: what the policy says."""
    refusal: Refusal | None = None
    """Why the only event of this batch is failed instead of tried."""

    def settles(self) -> set[int]:
        """Return the messages of the present stream that are settled once this is committed."""
        if self.deliveries and self.deliveries[0].released is not None:
            return set()  # out of quarantine, perhaps of an earlier stream, and acked long ago
        return {*[one.seq for one in self.deliveries], *[one.seq for one in self.unreadable], *self.foreign}


class BatchResult(msgspec.Struct):
    """Says what a committed batch did."""

    writes: BatchWrites
    delay: float | None
    """Seconds until something of this batch is due again."""
    tried: int = 0
    """How many aggregates, or events without order, handlers were called for."""
    took_s: float = 0.0
    """From the barrier to the commit."""
    commit_s: float = 0.0
    spans: BatchSpans | None = None
    """The spans of what was sampled of it."""
    left: Sequence[Arrival] = ()
    """What could be written nowhere, not even into quarantine: it is not acked, and comes again."""

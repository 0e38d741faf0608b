"""Finds where an aggregate begins whose first versions the stream no longer holds: `baseline="any"`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import anyio

from projectionist.core.testpoints import announce
from projectionist.runner.batch.planning import CONTIGUOUS
from projectionist.runner.batch.position_cache import PositionCache
from projectionist.runner.batch.position_lock import entered
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream.api import BrokerError

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.shared_pool import SharedPool
    from projectionist.runner.jetstream.message_lookup import Stored

LOOKED_AT = 32
"""How many messages of an aggregate are looked at, from its first on: producers may have changed their order."""
AT_ONCE = 16
ASK_AGAIN_S = 1.0


class Baselines:
    """Finds the lowest version that the stream holds, for aggregates that stand at a gap before their first event."""

    def __init__(self, consumer: Consumer, access: SharedPool, stored: Stored) -> None:
        self._consumer = consumer
        self._access = access
        self._stored = stored
        self._usual = PositionCache()
        """Aggregates that begin with version 1: what they miss is a gap like any other."""

    async def settle(self, due: Sequence[str]) -> AbstractSet[str]:
        """Let those of the due aggregates begin that have not; the versions below are stepped over.

        That is recorded as a decision each, and a version below that turns up later is an incident. Returns the
        aggregates that the broker could not be asked about: they are put off, and not to be settled now.
        """
        definition = self._consumer.definition
        if definition.baseline != "any" or definition.sequence != CONTIGUOUS:
            return frozenset()
        async with self._access.store(self._consumer) as store:
            parked = await store.beginnings(self._usual.unknown(due))
        lowest = await self._lowest_of(parked)
        self._usual.add(aggregate for aggregate, version in lowest.items() if version == 1)
        begins = {aggregate: version for aggregate, version in lowest.items() if version > 1}
        unknown = parked.keys() - lowest.keys()
        if begins or unknown:
            await self._record(begins, unknown)
        return unknown

    async def _record(self, begins: Mapping[str, int], unknown: AbstractSet[str]) -> None:
        async with self._access.store(self._consumer) as store, entered(store, self._consumer):
            asked = list(begins.keys() | unknown)
            still = [row["aggregate"] for row in await store.rows("lock_aggregates_without_baseline", asked)]
            await store.postpone([aggregate for aggregate in still if aggregate in unknown], ASK_AGAIN_S)
            found = [aggregate for aggregate in still if aggregate in begins]
            await store.begin(found, [begins[aggregate] - 1 for aggregate in found])
        if begins:
            announce("baseline.found")

    async def _lowest_of(self, parked: Mapping[str, int]) -> dict[str, int]:
        """Return the lowest version of each; those the broker could not be asked about are left out, and asked
        again."""
        found: dict[str, int] = {}
        left = iter(parked.items())

        async def ask() -> None:
            for aggregate, version in left:
                try:
                    found[aggregate] = await self._lowest(aggregate, version)
                except BrokerError:
                    return

        async with anyio.create_task_group() as tasks:
            for _ in range(min(AT_ONCE, len(parked))):
                tasks.start_soon(ask)
        return found

    async def _lowest(self, aggregate: str, version: int) -> int:
        """Return the lowest version in stream or parked (`version`), if the subject tells the aggregates apart."""
        kind, _, name = aggregate.partition("/")
        subject = self._consumer.definition.subjects.subject_for(kind, name)
        seq = 0
        for _ in range(LOOKED_AT if subject is not None else 0):
            message = await self._stored.first(subject or "", seq + 1)
            if message is None or version == 1:
                break
            seq = message.seq
            read = self._consumer.reader.reread(message.arrival(), seq)
            if isinstance(read, Delivery) and read.aggregate == aggregate and read.version is not None:
                version = min(version, read.version)
        return version


def notes(definition: ConsumerDefinition, first_seq: int, *, begins: bool) -> Iterator[str]:
    """Yield what is worth a line at start. `begins`: aggregates of this consumer may still wait for a first version."""
    if definition.sequence != CONTIGUOUS:
        return
    if definition.baseline == "first" and first_seq > 1 and begins:
        yield (
            f"stream {definition.stream} begins at sequence {first_seq}: an aggregate whose first events are gone "
            'will wait for them; with baseline="any" it begins where the stream does'
        )
    if definition.baseline != "any" and not definition.subjects.names_aggregate:
        yield (
            f"the subjects {' '.join(definition.subjects.texts)} do not name the {{aggregate}}, so missing versions "
            "cannot be fetched: a gap waits for an operator"
        )
    if definition.baseline == "any" and not definition.subjects.names_aggregate:
        yield (
            f"the subjects {' '.join(definition.subjects.texts)} do not name the {{aggregate}}, so the stream cannot "
            "be asked where one begins: it begins with the lowest version that is seen first"
        )

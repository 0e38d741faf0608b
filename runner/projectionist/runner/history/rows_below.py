"""The rows that ever were below some prefixes: which they are only the events say that name them, not the table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.wanted_rows import named_keys
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.decoding.delivery import Unreadable

Read = Callable[["Arrival"], "Delivery | Unreadable | None"]

MOST_BELOW = 50_000
"""So many rows are found at most."""


class TooManyBelow(RebuildError):
    """There were more rows below these prefixes than are folded one by one."""


async def keys_below(
    client: Client, definition: Definition, read: Read, prefixes: Collection[tuple[Any, ...]]
) -> list[Any]:
    """Return the keys below these prefixes that events name, of rows that are gone too; the stream is read for them.

    Raises TooManyBelow.
    """
    if not prefixes:
        return []
    wanted, lengths = frozenset(prefixes), sorted({len(one) for one in prefixes})
    last = (await api.stream(client, definition.stream)).state.last_seq
    found: dict[Any, None] = {}
    async for block in scan(client, definition.stream, definition.subjects.filter, 1, last):
        for delivery in map(read, block):
            step = step_of(definition, delivery.seq, delivery) if isinstance(delivery, Delivery) else None
            for key in () if step is None else named_keys(step.key):
                if any(key[:many] in wanted for many in lengths):
                    found[key] = None
        if len(found) > MOST_BELOW:
            raise TooManyBelow(f"events name more than {MOST_BELOW:,} rows below one prefix or another")
    return list(found)

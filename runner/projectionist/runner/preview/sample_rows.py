"""Chooses the rows of a preview: those of some aggregates, or of the keys that live and new code have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from anyio.lowlevel import checkpoint

from projectionist.projections.tables.table_key import Prefix
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.row_key_type import kind_of
from projectionist.runner.batch.wanted_rows import named_keys
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.lost_events import is_own
from projectionist.runner.history.rows_below import keys_below
from projectionist.runner.history.unknown_rows import own_group
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan
from projectionist.runner.verify.refold_rows import table_of

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.preview.live_rows import LiveRows


async def sample_rows(
    queries: Queries,
    client: Client,
    consumer: Consumer,
    live: LiveRows,
    progress: Progress,
    most: int,
    aggregate: str | None,
) -> list[Any]:
    """Return the keys of at most so many rows, by chance; of one aggregate alone, if it is named.

    Where an aggregate has one row, aggregates are chosen: a row that live has not made counts too. Elsewhere half are
    rows of live, and half of the keys that this code gives to events: the stream is read for them.
    """
    own, (_, key) = is_own(consumer), table_of(consumer)
    kind = consumer.view.own_type
    if own and aggregate is not None and kind not in (None, kind_of(aggregate)):
        raise RebuildError(
            f"rows of {consumer.view.definition.name} belong to aggregates of type {kind!r}, not {aggregate}"
        )
    if own and not key.several:
        chosen = [aggregate] if aggregate is not None else await _aggregates(queries, consumer, most)
        groups = (own_group(consumer.view.definition, one) for one in chosen)
        return [one for one in groups if one is not None]  # of an id that is no key every event fails
    found = await _keys_of_events(queries, client, consumer, progress, most, aggregate)
    if aggregate is not None:
        return found
    of_live = await live.some(most - most // 2)
    return list(dict.fromkeys([*of_live, *found]))[:most]


async def _aggregates(queries: Queries, consumer: Consumer, most: int) -> list[str]:
    kind = consumer.view.own_type
    if kind is None:
        return []
    rows = await queries.rows("select_some_aggregates", consumer.number, f"{kind}/", most)
    return [row["aggregate"] for row in rows]


async def _keys_of_events(
    queries: Queries,
    client: Client,
    consumer: Consumer,
    progress: Progress,
    most: int,
    aggregate: str | None,
) -> list[Any]:
    """Return the keys with the lowest hashes, which is a choice by chance that takes memory for these alone."""
    definition = consumer.view.definition
    read = Decisions(await queries.rows("select_decisions", consumer.number)).reading(consumer.reader)
    last = (await api.stream(client, definition.stream)).state.last_seq
    found: dict[Any, int] = {}
    prefixes: set[tuple[Any, ...]] = set()
    progress.begin("choosing rows", last)
    async for block in scan(client, definition.stream, definition.subjects.filter, 1, last):
        for arrival in block:
            one = read(arrival)
            if isinstance(one, Delivery) and aggregate in (None, one.aggregate):
                step = step_of(definition, one.seq, one)
                if aggregate is not None and step is not None and isinstance(step.key, Prefix):
                    prefixes.add(step.key.values)
                for key in () if step is None else named_keys(step.key):
                    if key not in found:
                        found[key] = crc32(repr(key).encode())
                if len(found) > 2 * most:
                    found = dict(_lowest(found, most))
        await checkpoint()
        await progress.advance(len(block))
    found |= {key: crc32(repr(key).encode()) for key in await keys_below(client, definition, read, prefixes)}
    return [key for key, _ in _lowest(found, most)]


def _lowest(found: dict[Any, int], most: int) -> list[tuple[Any, int]]:
    return sorted(found.items(), key=lambda one: (one[1], repr(one[0])))[:most]

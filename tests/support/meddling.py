"""What others do to a stream, a durable, sessions and the database while consumers work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from nats.js.api import ConsumerConfig, ConsumerInfo, StreamConfig, StreamSource
from nats.js.errors import NotFoundError
from tests.support.boundary_harness import BoundaryHarness
from tests.support.copies import copy_beside
from tests.support.load import tuned
from tests.support.waiting import eventually, listening

from projectionist.runner.jetstream import api

Act = Callable[[BoundaryHarness], Awaitable[None]]


async def _reshape(boundary: BoundaryHarness, *subjects: str, sources: tuple[str, ...] = ()) -> None:
    stream = boundary.live.stream
    await boundary.live.nats.jetstream().update_stream(
        StreamConfig(
            name=stream.name,
            subjects=[stream.subject(*subject.split(".")) for subject in ("order.*", *subjects)],
            sources=[StreamSource(name=f"{stream.name}_{source}") for source in sources] or None,
        )
    )


async def _foreign(boundary: BoundaryHarness, kind: str, stream: str = "") -> None:
    subject = f"{boundary.live.stream.name}{stream}.{kind}"
    for n in range(5):
        await boundary.live.nats.jetstream().publish(f"{subject}.{n}", b"{}", headers={"ce-id": f"{kind}{n}"})


async def add_a_subject(boundary: BoundaryHarness) -> None:
    """The stream takes further subjects, and something comes on them."""
    await _reshape(boundary, "customer.*")
    await _foreign(boundary, "customer")


async def remove_a_subject(boundary: BoundaryHarness) -> None:
    """The stream had another subject and takes it no more."""
    await add_a_subject(boundary)
    await _reshape(boundary)


async def purge_another_subject(boundary: BoundaryHarness) -> None:
    """All that came on another subject is removed."""
    await add_a_subject(boundary)
    await boundary.live.nats.jetstream().purge_stream(
        boundary.live.stream.name, subject=boundary.live.stream.subject("customer", "*")
    )


async def add_a_source(boundary: BoundaryHarness) -> None:
    """The stream takes up another one, whose messages have other subjects."""
    js, name = boundary.live.nats.jetstream(), f"old{len(boundary.stored)}"
    other = f"{boundary.live.stream.name}_{name}"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    boundary.afterwards.push_async_callback(js.delete_stream, other)
    await _foreign(boundary, "legacy", f"_{name}")
    await _reshape(boundary, sources=(name,))


async def erase_what_is_settled(boundary: BoundaryHarness) -> None:
    """A message that was settled long ago is erased, for the sake of somebody's privacy."""
    await boundary.drained()
    settled = min(boundary.stored - boundary.excused)
    await boundary.live.nats.jetstream().delete_msg(boundary.live.stream.name, settled)
    boundary.excused.add(settled)


async def purge_what_is_settled(boundary: BoundaryHarness) -> None:
    """The stream forgets its beginning, up to what is settled."""
    await boundary.drained()
    last = max(boundary.stored)
    await boundary.live.nats.jetstream().purge_stream(boundary.live.stream.name, seq=last)
    boundary.excused.update(seq for seq in boundary.stored if seq < last)


async def _found(boundary: BoundaryHarness, durable: str) -> ConsumerConfig:
    """The settings of a durable; somebody may have deleted it just now, and then it is made again."""

    async def look() -> ConsumerConfig | None:
        with suppress(NotFoundError):
            info: ConsumerInfo = await boundary.live.nats.jetstream().consumer_info(
                boundary.live.stream.name, durable
            )
            return info.config
        return None

    found = await eventually(look)
    assert found is not None
    return found


async def _edit(boundary: BoundaryHarness, **changed: Any) -> None:
    for durable in await boundary.durables():
        config = (await _found(boundary, durable)).evolve(**changed)
        await boundary.live.nats.jetstream().add_consumer(boundary.live.stream.name, config)


async def edit_sizes(boundary: BoundaryHarness) -> None:
    """Somebody gives the durables another ack wait and hardly anything at once."""
    await _edit(boundary, ack_wait=1, max_ack_pending=1)


async def limit_orders(boundary: BoundaryHarness) -> None:
    """Somebody has the broker refuse orders of more than one message."""
    for durable in await boundary.durables():
        await _found(boundary, durable)
        await api.change_consumer(boundary.live.nats, boundary.live.stream.name, durable, {"max_batch": 1})


async def narrow_the_filter(boundary: BoundaryHarness) -> None:
    """Somebody has the durables deliver one order alone, for a look."""
    await _edit(boundary, filter_subject=boundary.live.stream.subject("order", "nobody"))


async def widen_the_filter(boundary: BoundaryHarness) -> None:
    """Somebody has the durables deliver whatever the stream holds."""
    await _edit(boundary, filter_subject=boundary.live.stream.subjects)


async def delete_the_durables(boundary: BoundaryHarness) -> None:
    """Somebody tidies up."""
    for durable in await boundary.durables():
        with suppress(NotFoundError):
            await boundary.live.nats.jetstream().delete_consumer(boundary.live.stream.name, durable)


async def steal(boundary: BoundaryHarness) -> None:
    """Somebody looks at the next messages, and his tool acks them, as it does by default."""
    for durable in await boundary.durables():
        await _steal(boundary, durable)


async def _steal(boundary: BoundaryHarness, durable: str) -> None:
    await _found(boundary, durable)
    stealing = await boundary.live.nats.jetstream().pull_subscribe_bind(
        durable=durable, stream=boundary.live.stream.name
    )
    taken = 0
    for _ in range(20):
        asking = asyncio.create_task(stealing.fetch(10, timeout=0.5))
        await asyncio.sleep(0)
        await boundary.good(5)
        with suppress(TimeoutError):
            for message in await asking:
                await message.ack_sync()
                taken += 1
        if taken:
            break
    await stealing.unsubscribe()
    assert taken, "it was about what is taken away"


async def run_a_copy(boundary: BoundaryHarness) -> None:
    """A copy of the database is made, and somebody runs the same consumers on it."""
    live, settings = boundary.live, boundary.live.settings
    copy = await boundary.afterwards.enter_async_context(copy_beside(live.servers, live.database))
    tuned(live, url=copy)
    with listening() as heard:
        await boundary.afterwards.enter_async_context(live.running(*boundary.consumers, supervised=True))
        await heard.wait("worker.waiting", len(boundary.consumers))
    live.settings = settings


async def end_all_sessions(boundary: BoundaryHarness) -> None:
    """Somebody ends every session that this database has."""
    await boundary.live.pool.fetch(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


ACTS: list[Act] = [
    *(add_a_subject, remove_a_subject, purge_another_subject, add_a_source),
    *(erase_what_is_settled, purge_what_is_settled, edit_sizes, limit_orders, narrow_the_filter),
    widen_the_filter,
    *(delete_the_durables, steal, run_a_copy, end_all_sessions),
]

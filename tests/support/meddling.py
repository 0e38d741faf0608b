"""What others do to a stream, a durable, sessions and the database while consumers work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from nats.js.api import ConsumerConfig, ConsumerInfo, StreamConfig, StreamSource
from nats.js.errors import NotFoundError
from tests.support.copies import copy_beside
from tests.support.load import tuned
from tests.support.rim import DRAIN_S, Rim
from tests.support.waiting import eventually, listening

from projectionist.runner.jetstream import api

Act = Callable[[Rim], Awaitable[None]]


async def _reshape(rim: Rim, *subjects: str, sources: tuple[str, ...] = ()) -> None:
    stream = rim.live.stream
    await rim.live.nats.jetstream().update_stream(
        StreamConfig(
            name=stream.name,
            subjects=[stream.subject(*subject.split(".")) for subject in ("order.*", *subjects)],
            sources=[StreamSource(name=f"{stream.name}_{source}") for source in sources] or None,
        )
    )


async def _foreign(rim: Rim, kind: str, stream: str = "") -> None:
    subject = f"{rim.live.stream.name}{stream}.{kind}"
    for n in range(5):
        await rim.live.nats.jetstream().publish(f"{subject}.{n}", b"{}", headers={"ce-id": f"{kind}{n}"})


async def add_a_subject(rim: Rim) -> None:
    """The stream takes further subjects, and something comes on them."""
    await _reshape(rim, "customer.*")
    await _foreign(rim, "customer")


async def remove_a_subject(rim: Rim) -> None:
    """The stream had another subject and takes it no more."""
    await add_a_subject(rim)
    await _reshape(rim)


async def purge_another_subject(rim: Rim) -> None:
    """All that came on another subject is removed."""
    await add_a_subject(rim)
    await rim.live.nats.jetstream().purge_stream(
        rim.live.stream.name, subject=rim.live.stream.subject("customer", "*")
    )


async def add_a_source(rim: Rim) -> None:
    """The stream takes up another one, whose messages have other subjects."""
    js, name = rim.live.nats.jetstream(), f"old{len(rim.stored)}"
    other = f"{rim.live.stream.name}_{name}"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    rim.afterwards.push_async_callback(js.delete_stream, other)
    await _foreign(rim, "legacy", f"_{name}")
    await _reshape(rim, sources=(name,))


async def erase_what_is_settled(rim: Rim) -> None:
    """A message that was settled long ago is erased, for the sake of somebody's privacy."""
    await rim.drained()
    settled = min(rim.stored - rim.excused)
    await rim.live.nats.jetstream().delete_msg(rim.live.stream.name, settled)
    rim.excused.add(settled)


async def purge_what_is_settled(rim: Rim) -> None:
    """The stream forgets its beginning, up to what is settled."""
    await rim.drained()
    last = max(rim.stored)
    await rim.live.nats.jetstream().purge_stream(rim.live.stream.name, seq=last)
    rim.excused.update(seq for seq in rim.stored if seq < last)


async def _found(rim: Rim, durable: str) -> ConsumerConfig:
    """The settings of a durable; somebody may have deleted it just now, and then it is made again."""

    async def look() -> ConsumerConfig | None:
        with suppress(NotFoundError):
            info: ConsumerInfo = await rim.live.nats.jetstream().consumer_info(rim.live.stream.name, durable)
            return info.config
        return None

    found = await eventually(look, seconds=DRAIN_S)
    assert found is not None
    return found


async def _edit(rim: Rim, **changed: Any) -> None:
    for durable in await rim.durables():
        config = (await _found(rim, durable)).evolve(**changed)
        await rim.live.nats.jetstream().add_consumer(rim.live.stream.name, config)


async def edit_sizes(rim: Rim) -> None:
    """Somebody gives the durables another ack wait and hardly anything at once."""
    await _edit(rim, ack_wait=1, max_ack_pending=1)


async def limit_orders(rim: Rim) -> None:
    """Somebody has the broker refuse orders of more than one message."""
    for durable in await rim.durables():
        await _found(rim, durable)
        await api.change_consumer(rim.live.nats, rim.live.stream.name, durable, {"max_batch": 1})


async def narrow_the_filter(rim: Rim) -> None:
    """Somebody has the durables deliver one order alone, for a look."""
    await _edit(rim, filter_subject=rim.live.stream.subject("order", "nobody"))


async def widen_the_filter(rim: Rim) -> None:
    """Somebody has the durables deliver whatever the stream holds."""
    await _edit(rim, filter_subject=rim.live.stream.subjects)


async def delete_the_durables(rim: Rim) -> None:
    """Somebody tidies up."""
    for durable in await rim.durables():
        with suppress(NotFoundError):
            await rim.live.nats.jetstream().delete_consumer(rim.live.stream.name, durable)


async def steal(rim: Rim) -> None:
    """Somebody looks at the next messages, and his tool acks them, as it does by default."""
    for durable in await rim.durables():
        await _steal(rim, durable)


async def _steal(rim: Rim, durable: str) -> None:
    await _found(rim, durable)
    stealing = await rim.live.nats.jetstream().pull_subscribe_bind(
        durable=durable, stream=rim.live.stream.name
    )
    taken = 0
    for _ in range(20):
        asking = asyncio.create_task(stealing.fetch(10, timeout=0.5))
        await asyncio.sleep(0)
        await rim.good(5)
        with suppress(TimeoutError):
            for message in await asking:
                await message.ack_sync()
                taken += 1
        if taken:
            break
    await stealing.unsubscribe()
    assert taken, "it was about what is taken away"


async def run_a_copy(rim: Rim) -> None:
    """A copy of the database is made, and somebody runs the same consumers on it."""
    live, settings = rim.live, rim.live.settings
    copy = await rim.afterwards.enter_async_context(copy_beside(live.lab, live.database))
    tuned(live, url=copy)
    with listening() as heard:
        await rim.afterwards.enter_async_context(live.running(*rim.consumers, supervised=True))
        await heard.wait("worker.waiting", len(rim.consumers))
    live.settings = settings


async def end_all_sessions(rim: Rim) -> None:
    """Somebody ends every session that this database has."""
    await rim.live.pool.fetch(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


ACTS: list[Act] = [
    *(add_a_subject, remove_a_subject, purge_another_subject, add_a_source),
    *(erase_what_is_settled, purge_what_is_settled, edit_sizes, limit_orders, narrow_the_filter),
    widen_the_filter,
    *(delete_the_durables, steal, run_a_copy, end_all_sessions),
]

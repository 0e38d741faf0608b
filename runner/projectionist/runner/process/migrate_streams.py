"""Makes and grows the streams that an app declares, or says what that would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core.nats import connections
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import StreamMissing
from projectionist.runner.jetstream.stream_plan import StreamPlan, plan
from projectionist.runner.retention import safety

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.projections.stream import Stream
    from projectionist.runner.jetstream.api import StreamConfig


async def migrate_streams(
    settings: Settings,
    streams: Sequence[Stream],
    consumers: Sequence[ConsumerDefinition],
    *,
    apply: bool,
    within_s: float = connections.FIRST_S,
) -> list[StreamPlan]:
    """Plan, and apply if asked to. Raises BrokerUnreachable, and BrokerError where the broker refuses."""
    if not streams:
        return []
    client = await connections.connect(settings.nats, name="projectionist migrate", within_s=within_s)
    try:
        plans = []
        for stream in streams:
            planned, found = await compared(client, stream)
            if planned.what:
                warned = (*planned.notes, *_forgetting(planned.resulting(found), stream, consumers, settings))
                planned = msgspec.structs.replace(planned, notes=warned)
            if apply:
                await _apply(client, planned)
            plans.append(planned)
        return plans
    finally:
        await client.close()


async def compared(client: Client, stream: Stream) -> tuple[StreamPlan, StreamConfig | None]:
    """Return what a declared stream lacks, and the stream as it is."""
    try:
        found = (await api.stream(client, stream.name)).config
    except StreamMissing:
        found = None
    others = {one: await api.takers(client, one) for one in stream.filters}
    for names in others.values():
        if stream.name in names:
            names.remove(stream.name)
    return plan(stream, found, others), found


async def _apply(client: Client, planned: StreamPlan) -> None:
    if planned.what == "create":
        await api.put_stream(client, planned.config, new=True)
    elif planned.what:
        await api.change_stream(client, planned.stream, planned.config)


def _forgetting(
    after: StreamConfig, stream: Stream, consumers: Sequence[ConsumerDefinition], settings: Settings
) -> Iterator[str]:
    """Return which consumers would not start on such a stream, as their inbox forgets before it does."""
    for one in consumers:
        policy = settings.policy(one.name)
        if one.stream == stream.name and (why := safety.unsafe(policy, one.sequence, after)):
            yield f"{one.name}: {why}. {safety.remedy(one.name, after)}"

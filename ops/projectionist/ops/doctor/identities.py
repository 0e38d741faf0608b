"""A look at what producers send: the last messages of a stream, read as the consumer reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.digest import stand_in
from projectionist.core.printable_text import join_first
from projectionist.ops.doctor.check import Check, attention, note
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery, Reason, Unreadable
from projectionist.runner.jetstream.stream_reader import scan

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.jetstream.api import StreamInfo

SAMPLE = 500
NAMED = 3


async def look(
    client: Client, definition: ConsumerDefinition, settings: Settings, found: StreamInfo
) -> list[Check]:
    """Check that producers name their events, and that those can be read."""
    policy, name = settings.policy(definition.name), definition.name
    read, unnamed, bad, sources = await _read(client, definition, Decoder.of(definition, policy), found)
    checks = []
    if len(sources) > 1 and not policy.sources:
        who = join_first(sorted(sources), NAMED)
        checks.append(
            note(
                name,
                "sources",
                f"{who} publish to the stream, and each may speak for the others: no rule says on which subjects",
                f"Name them in [consumers.{name}.sources]: docs/operations/trusted-sources.md",
            )
        )
    if unnamed:
        says = note if definition.sequence != "unordered" else attention
        checks.append(
            says(
                name,
                "identity",
                f"{unnamed} of the last {read} events come without an id of their producer",
                f"Have producers send {policy.headers.id}; without order a repeat lacking one is another event",
            )
        )
    if bad:
        checks.append(
            attention(
                name,
                "readable",
                f"among the last {read} events some cannot be read: {bad}",
                "Mend the producer",
            )
        )
    return checks


async def _read(
    client: Client, definition: ConsumerDefinition, reader: Decoder, found: StreamInfo
) -> tuple[int, int, str, set[str]]:
    """Return how many of the last events were read, how many have no id, what is wrong with the first bad one
    (its text may quote the event, and a digest stands for it), and which sources they say they have."""
    first, last = max(found.state.first_seq, found.state.last_seq - SAMPLE + 1), found.state.last_seq
    read, unnamed, bad = 0, 0, ""
    sources: set[str] = set()
    if found.state.messages:
        async for block in scan(client, definition.stream, definition.subjects.filter, first, last):
            for one in map(reader.read, block):
                read += one is not None
                unnamed += isinstance(one, Delivery) and one.used_fallback
                if isinstance(one, Delivery):
                    sources.add(one.source)
                if isinstance(one, Unreadable):
                    bad = bad or f"{_why(one)}, the first at sequence {one.seq}"
    return read, unnamed, bad, sources


def _why(one: Unreadable) -> str:
    """Return why it cannot be read; of a source that may not speak the whole, which names source and subject alone."""
    if one.reason is Reason.SOURCE:
        return f"{one.reason}: {one.detail}"
    return stand_in(one.detail, one.reason)

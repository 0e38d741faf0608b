"""The outbox: what waits for a person, what has no relay, and which relays stand still. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from projectionist.ops.doctor.check import Check, attention, note, well

if TYPE_CHECKING:
    from projectionist.outbox.admin.status import OutboxStatus


def checks(found: OutboxStatus, providers: Collection[str]) -> Iterator[Check]:
    """Check what of the outbox does not go on by itself; `providers`: the app's own."""
    for one in found.troubles:
        yield attention("outbox", one.about, one.text, one.remedy)
    for relay in found.relays:
        name, about = f"{relay.host}:{relay.pid}", ", ".join(relay.providers)
        if relay.alive:
            yield well("relays", name, f"it sends for {about}")
        else:
            yield attention(
                "relays",
                name,
                "it crashed, or hangs",
                "Look at the process; if it is gone, its work is taken over and this goes after a day",
            )
    served = {name for relay in found.relays if relay.alive for name in relay.providers}
    if lacking := sorted(set(providers) - served):
        yield note("relays", "running", f"no relay runs for {', '.join(lacking)}", "projectionist relay")

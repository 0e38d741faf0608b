"""What tests of a reset share."""

from __future__ import annotations

import msgspec
from tests.support.consumer_harness import ConsumerHarness

from projectionist.core.operator import Act

WHY = ("--reason", "rows were edited by hand")
ACT = Act("ann", "ticket 7")


async def history(live: ConsumerHarness, order: str) -> list[str]:
    """What the row of an order tells."""
    text = await live.value("select history::text from orders where order_id = $1", order)
    return list(msgspec.json.decode(text))

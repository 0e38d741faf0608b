"""Models and dataclasses recorded like any Event: through the outbox and straight to their stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import pytest
import pytest_asyncio
from pydantic import BaseModel, Field
from tests.support.outbox import Outbox as RelayHarness
from tests.support.outbox import outbox
from tests.support.recording import CartOpened, RecordingApp
from tests.support.servers import Servers, Stream

from projectionist.api import App, Bounds, PublishError, event
from projectionist.api import Stream as DeclaredStream

pytestmark = pytest.mark.asyncio


@event(type="cart.filled", schema=2)
class CartFilled(BaseModel):
    items: list[str] = Field(alias="lineItems")


@event(type="cart.charged")
@dataclass(frozen=True)
class CartCharged:
    amount: Annotated[Decimal, Bounds(ge=0)]


@pytest_asyncio.fixture
async def harness(database: str) -> AsyncIterator[RelayHarness]:
    async with outbox(database) as harness:
        yield harness


async def test_models_and_dataclasses_are_recorded_by_both_ways(
    harness: RelayHarness, servers: Servers, database: str, stream: Stream
) -> None:
    cart = RecordingApp(servers, database, stream)
    declared = DeclaredStream(
        stream.name,
        f"{stream.name}.cart.{{id}}",
        source="cart-api",
        events=[CartOpened, CartFilled, CartCharged],
    )
    app = App(streams=[declared], settings=cart.settings)
    connection = harness.connection
    async with connection.transaction():
        recorded = await app.outbox(connection).record(
            "cart/1", CartOpened("ann"), CartFilled(lineItems=["a"]), expected_version=0
        )
        with pytest.raises(PublishError, match=r"no consumer could read.*>= 0 - at `\$\.amount`"):
            await app.outbox(connection).record("cart/1", CartCharged(Decimal(-1)), expected_version=2)
    async with cart.relaying(harness):
        await harness.all_become("sent")
    async with app.publisher() as publisher:
        later = await publisher.record(
            "cart/1", CartCharged(Decimal("4.20")), expected_version=recorded.version
        )
        with pytest.raises(PublishError, match="is no event with a type"):
            await publisher.record("cart/1", CartCharged, expected_version=later.version)
    assert await cart.told() == [
        ("cart/1:1", "recording.opened", "1", '{"customer":"ann"}'),
        ("cart/1:2", "cart.filled", "2", '{"lineItems":["a"]}'),
        ("cart/1:3", "cart.charged", "3", '{"amount":"4.20"}'),
    ]
    assert [(m.headers or {})["ce-schemaversion"] for m in await cart.stored()] == ["1", "2", "1"]

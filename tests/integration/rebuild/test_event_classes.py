"""Models, dataclasses and bounds as the classes of events: live, verify and rebuild read them alike."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import BaseModel, Field
from tests.support.consumer_harness import headers_of
from tests.support.rebuilding import RebuildHarness

from projectionist.api import Bounds, Event, Projection, event, on

pytestmark = pytest.mark.asyncio


@event(type="parcel.packed")
class ParcelPacked(BaseModel):
    goods: list[str]
    price: Annotated[Decimal, Field(ge=0)] = Decimal(0)


@event(type="parcel.weighed")
@dataclass
class ParcelWeighed:
    grams: Annotated[Decimal, Bounds(gt=0)]


class ParcelPriced(Event, type="parcel.priced"):
    price: Annotated[Decimal, Bounds(ge=0)]


async def test_live_verify_and_rebuild_read_models_dataclasses_and_bounds_alike(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness

    class ParcelView(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("*", "{id}"),
        table="parcel_view",
        key="id",
    ):
        id: str
        goods: str = ""
        grams: Decimal = Decimal(0)
        price: Decimal = Decimal(0)

        @on(ParcelPacked)
        def packed(self, event: ParcelPacked) -> None:
            event.goods.sort()
            self.goods, self.price = ",".join(event.goods), event.price

        @on(ParcelWeighed)
        def weighed(self, event: ParcelWeighed) -> None:
            self.grams = event.grams

        @on(ParcelPriced)
        def priced(self, event: ParcelPriced) -> None:
            self.price = event.price

    async def publish(kind: str, body: bytes, name: str, version: int) -> None:
        headers = headers_of(ParcelPriced(Decimal(0)), name, version, id=f"{name}:{version}")
        headers["ce-type"] = f"parcel.{kind}"
        await harness.publish_raw(body, headers, name)

    await harness.migrate(ParcelView)
    for name in ("p1", "p2", "p3", "p4"):
        await publish("packed", b'{"goods":["b","a"],"price":"1.50"}', name, 1)
        await publish("weighed", b'{"grams":"7.25"}', name, 2)
    await publish("priced", b'{"price":"-0.01"}', "p2", 3)
    await publish("weighed", b'{"grams":0}', "p3", 3)
    await publish("packed", b'{"goods":[],"price":-1}', "p4", 3)
    await publish("priced", b'{"price":"3.00"}', "p1", 3)
    await harness.settle(ParcelView)

    rows = await harness.rows("parcel_view")
    assert rows[0] == ("p1", "a,b", Decimal("7.25"), Decimal("3.00"))
    assert [row[1:] for row in rows[1:]] == [("a,b", Decimal("7.25"), Decimal("1.50"))] * 3
    assert [await harness.head(ParcelView, f"order/{name}") for name in ("p2", "p3", "p4")] == [
        (2, "waiting", 1)
    ] * 3
    told = await harness.fetch("select error from {s}.parked order by aggregate")
    assert "Expected `Decimal` >= 0 - at `$.price`" in told[0][0]
    assert "Expected `Decimal` > 0 - at `$.grams`" in told[1][0]
    assert "price: greater_than_equal" in told[2][0]

    assert (await rebuilds.verify(ParcelView)).drifts == []
    rebuilt = await rebuilds.rebuild(ParcelView)
    assert rebuilt.views[0].compared.differences == []
    assert await harness.rows("parcel_view") == rows

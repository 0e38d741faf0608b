"""Intents of a producer: real with its commit, gone with its rollback, one a source and id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest
import pytest_asyncio
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from tests.support.letters import UNPRINTABLE
from tests.support.outbox import Outbox as ConsumerHarness
from tests.support.outbox import made, outbox, scripted

from projectionist.core.settings.secret import Url
from projectionist.outbox import Intent, IntentReused, Outbox, OutboxError, Slotted
from projectionist.outbox.providers import NatsPublish, Smtp

pytestmark = pytest.mark.asyncio


class Placed(Intent, provider="stub"):
    order_id: str


class Loose(Intent, provider="stub", order_by=None, destination="to", on_dead="block"):
    to: str


@pytest_asyncio.fixture
async def harness(database: str) -> AsyncIterator[ConsumerHarness]:
    async with outbox(database) as harness:
        yield harness


async def added(harness: ConsumerHarness, shop: Outbox, intent: Intent | Slotted, **given: Any) -> str:
    """Write one in a transaction of its own."""
    async with harness.connection.transaction():
        return await shop.add(harness.connection, intent, **given)


async def test_an_intent_is_real_with_the_commit_of_its_producer(harness: ConsumerHarness) -> None:
    shop = Outbox("shop-api")
    undone = harness.connection.transaction()
    await undone.start()
    await shop.add(harness.connection, Placed(order_id="o-1"), id="order-1-placed", aggregate="order/1")
    await undone.rollback()
    assert not await harness.states()
    async with harness.connection.transaction():
        key = await shop.add(
            harness.connection, Placed(order_id="o-1"), id="order-1-placed", aggregate="order/1"
        )
    stub = scripted()
    async with harness.relaying(made(stub)):
        await harness.becomes(key, "sent")
    assert stub.executions == {key: 1}


async def test_an_intent_belongs_to_the_trace_that_is_going_on_or_to_the_one_it_names(
    harness: ConsumerHarness,
) -> None:
    shop, named = Outbox("shop-api"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = NonRecordingSpan(SpanContext(7, 9, is_remote=False, trace_flags=TraceFlags(1)))
    await added(harness, shop, Placed(order_id="o-1"), id="outside")
    with use_span(span):
        await added(harness, shop, Placed(order_id="o-1"), id="inside")
        await added(harness, shop, Placed(order_id="o-1"), id="named", traceparent=named)
    rows = await harness.connection.fetch("select id, traceparent from projectionist.intents")
    inside = f"00-{7:032x}-{9:016x}-01"
    assert {row["id"]: row["traceparent"] for row in rows} == {
        "outside": None,
        "inside": inside,
        "named": named,
    }


async def test_a_producer_that_tries_again_writes_one_intent(harness: ConsumerHarness) -> None:
    shop = Outbox("shop-api")
    keys = {await added(harness, shop, Placed(order_id="o-1"), id="order-1-placed") for _ in range(2)}
    assert len(keys) == 1
    with pytest.raises(IntentReused, match="with other content"):
        await added(harness, shop, Placed(order_id="o-2"), id="order-1-placed")
    keys.add(await added(harness, shop, Placed(order_id="o-2").slot("second"), id="order-1-placed"))
    keys.add(await added(harness, Outbox("other"), Placed(order_id="o-2"), id="order-1-placed"))
    assert len(keys) == 3


async def test_the_same_content_for_another_aggregate_is_another_intent(harness: ConsumerHarness) -> None:
    """It would be sent in the order of the one and never in that of the other."""
    shop = Outbox("shop-api")
    first = await added(harness, shop, Placed(order_id="o-1"), id="a", aggregate="order/1")
    assert await added(harness, shop, Placed(order_id="o-1"), id="a", aggregate="order/1") == first
    for other in ("order/2", None):
        with pytest.raises(IntentReused):
            await added(harness, shop, Placed(order_id="o-1"), id="a", aggregate=other)


async def test_intents_about_one_aggregate_are_ordered_and_loose_ones_are_not(
    harness: ConsumerHarness,
) -> None:
    shop = Outbox("shop-api")
    one = [await added(harness, shop, Placed(order_id=n), id=n, aggregate="order/1") for n in "ab"]
    loose = await added(harness, shop, Loose(to="acme"), id="c", aggregate="order/1")
    lanes = [(await harness.row(key))["ordering"] for key in (*one, loose)]
    assert lanes[0] == lanes[1] == "8:shop-api4:stub7:order/1"
    assert lanes[2] is None
    row = await harness.row(loose)
    assert (row["destination"], row["on_dead"], row["class"], row["slot"]) == (
        "acme",
        "block",
        "Loose",
        "Loose",
    )


class Sorted(Intent, provider="stub", destination="to", order_by="by"):
    to: str = "acme"
    by: str | None = None


async def test_an_unstorable_destination_is_refused_and_without_order_there_is_no_lane(
    harness: ConsumerHarness,
) -> None:
    shop = Outbox("shop-api")
    for wrong in (Sorted(to=""), Sorted(to="x" * 2000), Sorted(to="a\0"), Sorted(by="x" * 2000)):
        with pytest.raises(ValueError, match=r"Sorted\.(to|by)"):
            await added(harness, shop, wrong, id="a")
    free, sorted_ = [await added(harness, shop, Sorted(by=by), id=f"{by}") for by in (None, "x")]
    assert (await harness.row(free))["ordering"] is None
    assert (await harness.row(sorted_))["ordering"] == "8:shop-api4:stub1:x"


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"id": bad} for bad in ("", "a\0", "a\x1fb", "a\nb", "\ud800", "x" * 256)),
        *({"aggregate": bad} for bad in ("", "order/\0", "order/\u200b", "x/" * 257, "o-1", "order/")),
        *({"version": bad} for bad in (0, -1, 2**63)),
    ],
)
async def test_a_name_that_no_statement_takes_is_refused_and_the_transaction_goes_on(
    harness: ConsumerHarness, wrong: dict[str, Any]
) -> None:
    async with harness.connection.transaction():
        with pytest.raises(ValueError, match=next(iter(wrong))):
            await Outbox("shop-api").add(harness.connection, Placed(order_id="o"), **{"id": "a"} | wrong)
        key = await Outbox("shop-api").add(
            harness.connection, Placed(order_id="o"), id="a", version=2**63 - 1
        )
    assert await harness.state(key) == "ready"


@pytest.mark.parametrize("field", ["id", "aggregate"])
async def test_what_cannot_be_printed_is_refused_in_every_name(harness: ConsumerHarness, field: str) -> None:
    for letter in UNPRINTABLE:
        given: dict[str, Any] = {"id": "a"} | {field: f"a/{letter}b"}
        with pytest.raises(ValueError, match=rf"{field} of an intent"):
            await added(harness, Outbox("shop-api"), Placed(order_id="o"), **given)
        with pytest.raises(ValueError, match="source of an intent"):
            Outbox(f"a{letter}b")


@pytest.mark.parametrize("source", ["", "a\0", "x" * 513])
async def test_a_producer_has_a_name_that_can_be_written(source: str) -> None:
    with pytest.raises(ValueError, match="source"):
        Outbox(source)


@pytest.mark.parametrize("parent", ["00-x", f"01-{TRACE}-\n", f"01-{TRACE}-\0", f"01-{TRACE}-é"])
async def test_a_malformed_trace_is_none_and_no_obstacle(harness: ConsumerHarness, parent: str) -> None:
    key = await added(
        harness, Outbox("shop-api"), Placed(order_id="o"), id="a", traceparent=parent, tracestate="a=b"
    )
    found = await harness.connection.fetchrow(
        "select key, traceparent, tracestate from projectionist.intents"
    )
    assert found is not None
    assert tuple(found) == (key, None, None)


async def test_without_an_open_transaction_nothing_is_written(harness: ConsumerHarness) -> None:
    """It would be sent at once, and stay sent when the producer's own write is undone."""
    with pytest.raises(OutboxError, match=r"no transaction is open.*async with connection\.transaction\(\)"):
        await Outbox("shop-api").add(harness.connection, Placed(order_id="o"), id="a")
    assert not await harness.states()


async def test_behind_sqlalchemy_nothing_outlives_what_was_rolled_back(
    harness: ConsumerHarness, database: str
) -> None:
    """It begins its transaction with the first statement: until then the driver's connection has none."""
    sqlalchemy, asynchronous = import_module("sqlalchemy"), import_module("sqlalchemy.ext.asyncio")
    shop, url = Outbox("shop-api"), Url(database)
    engine = asynchronous.create_async_engine(
        url.reveal().replace("postgresql://", "postgresql+asyncpg://", 1)
    )

    async def add(connection: Any, name: str) -> str:
        driver = (await connection.get_raw_connection()).driver_connection
        return await shop.add(driver, Placed(order_id=name), id=name)

    async def undone() -> None:
        async with engine.begin() as connection:
            await connection.execute(sqlalchemy.text("select 1"))
            await add(connection, "undone")
            raise ZeroDivisionError

    try:
        with pytest.raises(OutboxError, match="first statement"):
            async with engine.begin() as connection:
                await add(connection, "early")
        with pytest.raises(ZeroDivisionError):
            await undone()
        async with engine.begin() as connection:
            await connection.execute(sqlalchemy.text("select 1"))
            kept = await add(connection, "kept")
            with pytest.raises(OutboxError, match=r"connection of asyncpg.*driver_connection"):
                await shop.add(connection, Placed(order_id="o"), id="wrong")
    finally:
        await engine.dispose()
    assert await harness.states() == {"ready": 1}
    assert await harness.state(kept) == "ready"


class Announced(Intent, provider="events"):
    order_id: str


@pytest.mark.parametrize("given", [{}, {"aggregate": "order/1"}, {"version": 1}])
async def test_an_event_that_nobody_could_put_in_order_is_refused(
    harness: ConsumerHarness, given: dict[str, Any]
) -> None:
    class Unordered(NatsPublish):
        versioned = False

    shop = Outbox("shop-api", providers={"events": NatsPublish})
    with pytest.raises(OutboxError, match=r"has no aggregate or no version.*version=3"):
        await added(harness, shop, Announced(order_id="1"), id="a", **given)
    loose = Outbox("shop-api", providers={"events": Unordered})
    assert (
        await harness.state(await added(harness, loose, Announced(order_id="1"), id="a", **given)) == "ready"
    )


async def test_what_is_for_a_provider_that_the_app_lacks_is_refused(harness: ConsumerHarness) -> None:
    with pytest.raises(OutboxError, match=r"'stub', which the app lacks\. Its providers are: email"):
        await added(harness, Outbox("shop-api", providers={"email": Smtp}), Placed(order_id="1"), id="a")

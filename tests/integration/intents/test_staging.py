"""Staged intents are unpacked: each once, in order, by any process, and by a relay unasked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import Outbox, made, outbox, scripted
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres
from projectionist.migrations import migrate
from projectionist.outbox import Intent
from projectionist.outbox.intents.keys import body_hash, frozen_body
from projectionist.outbox.intents.staging import (
    AT_ONCE,
    INTENTS,
    StagedIntent,
    encode_intents,
    intent_chunks,
    unpack_all,
    unpack_some,
)
from projectionist.outbox.relay.database_link import DatabaseLink
from projectionist.outbox.relay.notify import Notifier, channel
from projectionist.projections import Envelope
from projectionist.projections.reactor_answers import answer_of

pytestmark = pytest.mark.asyncio

SQL = Statements("projectionist.outbox", "projectionist")
WRITE = Statements("projectionist.runner", "projectionist")["insert_intent_batches"]


@pytest_asyncio.fixture
async def here(database: str) -> AsyncIterator[Outbox]:
    async with outbox(database) as made:
        yield made


def staged(number: int, *, lane: str = "a", body: bytes = b"{}", key: str = "") -> StagedIntent:
    return StagedIntent(
        *(key or f"key-{number}", "shop", f"e{number}", lane, number, "Receipt", "Receipt", "stub", "stub"),
        *(lane, "pass", body, None, None, number),
    )


def unasked() -> Envelope:
    raise AssertionError("an intent that is sent at once needs no envelope")


async def write(
    connection: asyncpg.Connection[asyncpg.Record], *intents: StagedIntent, consumer: int = 1
) -> None:
    """As a batch does."""
    rows = [(len(part), encode_intents(part)) for part in intent_chunks(intents)]
    await connection.execute(WRITE, consumer, 1, *zip(*rows, strict=True))


async def test_unpacked_intents_are_those_that_were_staged(here: Outbox) -> None:
    content = frozen_body({"text": 'quotes " and \\ and \u00e9 and \0', "n": 1})
    asked = staged(7, lane="order/ö", body=content)
    await write(here.connection, asked)

    assert await unpack_some(here.connection, SQL) == 1
    (row,) = await here.connection.fetch("select * from projectionist.intents")
    found = {
        name: row["class" if name == "class_name" else name]
        for name in StagedIntent.__struct_fields__
        if name not in ("seq", "due", "guard", "expires_s", "cancels")
    }
    assert found == {name: getattr(asked, name) for name in found}
    assert row["hash"] == body_hash(content)
    assert (row["consumer"], row["state"]) == (1, "open")
    (place,) = await here.connection.fetch("select provider, lane, state from projectionist.outbox")
    assert tuple(place) == ("stub", "order/ö", "ready")


async def test_several_processes_unpack_each_intent_once_and_lanes_keep_their_order(
    here: Outbox, database: str
) -> None:
    lanes = [f"lane{n}" for n in range(7)]
    for begin in range(0, 400, 20):
        await write(here.connection, *(staged(n, lane=lanes[n % 7]) for n in range(begin, begin + 20)))
    connections = [await asyncpg.connect(database) for _ in range(4)]
    try:
        await asyncio.gather(*(unpack_all(connection, SQL) for connection in connections))
    finally:
        for connection in connections:
            await connection.close()

    rows = await here.connection.fetch(
        "select lane, i.version from projectionist.outbox o "
        "join projectionist.intents i using (seq) order by place"
    )
    assert len(rows) == 400
    for lane in lanes:
        versions = [row["version"] for row in rows if row["lane"] == lane]
        assert versions == sorted(versions)
    assert await here.connection.fetchval("select count(*) from projectionist.staged_intents") == 0


async def test_a_key_staged_again_is_one_intent_and_with_other_content_an_incident(
    here: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    await write(here.connection, staged(1, key="k", body=b'{"a":1}'), staged(2, key="k", body=b'{"a":2}'))
    await write(here.connection, staged(3, key="k", body=b'{"a":1}'))
    await unpack_all(here.connection, SQL)
    await write(here.connection, staged(4, key="k", body=b'{"a":3}'), staged(5, key="k", body=b'{"a":1}'))
    await unpack_all(here.connection, SQL)

    assert [row["body"] for row in await here.connection.fetch("select body from projectionist.intents")] == [
        b'{"a":1}'
    ]
    assert await here.connection.fetchval("select count(*) from projectionist.outbox") == 1
    told = await here.connection.fetch("select kind, seq from projectionist.incidents order by seq")
    assert [tuple(row) for row in told] == [("intent_reuse", 2), ("intent_reuse", 4)]
    lines = [one.getMessage() for one in caplog.records if "intent_reuse" in one.getMessage()]
    assert [line.partition(" have")[0] for line in lines] == ["incident intent_reuse: 1 intents"] * 2


async def test_one_row_holds_so_many_and_a_large_content_stands_alone() -> None:
    many = [staged(n) for n in range(2 * INTENTS + 1)]
    assert [len(part) for part in intent_chunks(many)] == [INTENTS, INTENTS, 1]
    large = [staged(n, body=b"x" * 5_000_000) for n in range(3)]
    assert [len(part) for part in intent_chunks(large)] == [1, 1, 1]
    assert [one for part in intent_chunks(many) for one in part] == many


async def test_unpacking_waits_until_another_process_has_unpacked_all(here: Outbox, database: str) -> None:
    for number in range(2 * AT_ONCE):
        await write(here.connection, staged(number))
    other = await asyncpg.connect(database)
    try:
        async with other.transaction():
            assert await unpack_some(other, SQL) == AT_ONCE
            looking = asyncio.create_task(unpack_all(here.connection, SQL))
            await blocked(other)
        await looking
        assert await here.connection.fetchval("select count(*) from projectionist.intents") == 2 * AT_ONCE
    finally:
        await other.close()


async def blocked(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until somebody waits for a lock."""

    async def waits() -> bool:
        found = await connection.fetchval(
            "select exists (select from pg_locks where not granted and locktype = 'advisory')"
        )
        return bool(found)

    await eventually(waits)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text())
async def test_an_emitted_intent_can_be_unpacked_or_is_refused_at_once(
    here: Outbox, where: str, text: str
) -> None:
    try:
        (emitted,) = answer_of(Hook(where, text), unasked, ordered=True).intents
    except ValueError:
        return
    body, name = emitted.body, body_hash(emitted.body).hex()
    await write(
        here.connection,
        msgspec.structs.replace(staged(1, key=name, body=body), slot=emitted.slot, destination=where),
    )
    await unpack_all(here.connection, SQL)
    row = await here.connection.fetchrow(
        "select destination, body from projectionist.intents where key = $1", name
    )
    assert row is not None
    assert (row["destination"], row["body"]) == (where, body)


class Hook(Intent, provider="hooks", destination="to"):
    to: str
    text: str


async def test_a_relay_unpacks_staged_and_later_intents_without_a_notification(here: Outbox) -> None:
    provider = scripted()
    await write(here.connection, staged(1))
    async with here.relaying(made(provider)):
        await here.becomes("key-1", "sent")
        await write(here.connection, staged(2))
        await here.becomes_known("key-2")
        await here.becomes("key-2", "sent")
    assert provider.executions == Counter({"key-1": 1, "key-2": 1})


async def test_a_consumers_commit_wakes_the_relay(live: ConsumerHarness) -> None:
    """Polling would take minutes here, so it is the notify that brings the intent to the provider."""
    s, provider = shop(live.stream), scripted()
    await live.migrate(s.Orders)
    waker = Notifier(live.settings.postgres)
    live.access.wake = waker.wake  # as `projectionist run` does it
    waking = asyncio.create_task(waker.run())
    try:
        async with (
            outbox(live.database) as box,
            box.relaying(made(provider, "email"), poll_s=600),
            live.running(s.Orders),
        ):
            await live.publish(OrderPlaced("ann", 500), "o1", 1)
            await live.publish(OrderPaid(), "o1", 2)

            async def sent() -> bool:
                return sum(provider.executions.values()) == 1

            await eventually(sent)
    finally:
        waking.cancel()
        await asyncio.gather(waking, return_exceptions=True)


@pytest.mark.parametrize("schema", ["é" * 28, "ü" * 31, "x" * 63, "x" + "€" * 20, "projectionist"])
async def test_a_schema_of_any_name_has_a_channel_that_is_heard(database: str, schema: str) -> None:
    connection = await asyncpg.connect(database)
    heard = asyncio.Event()
    postgres = Postgres(url=Url(database), schema=schema)
    waker = Notifier(postgres)
    waking = asyncio.create_task(waker.run())
    try:
        await migrate(connection, schema)
        await connection.add_listener(channel(schema), lambda *_: heard.set())
        waker.wake()
        await asyncio.wait(
            [waking, hearing := asyncio.create_task(heard.wait())],
            timeout=HANG_S,
            return_when="FIRST_COMPLETED",
        )
        assert hearing.done(), waking
    finally:
        waking.cancel()
        await asyncio.gather(waking, return_exceptions=True)
        await connection.close()
    assert len(channel(schema).encode()) <= 63


async def test_starts_and_replies_are_on_disk_although_the_database_prefers_speed(
    here: Outbox, database: str
) -> None:
    await here.connection.execute(
        f"alter database {database.rpartition('/')[2]} set synchronous_commit = off"
    )
    said = {}
    for setup in ("set_stable_plans", "set_stable_plans_async_commit"):
        link = DatabaseLink(here.settings.postgres, setup, setup=setup)
        async with link.lent() as connection:
            said[setup] = await connection.fetchval("show synchronous_commit")
        await link.close()
    assert said == {"set_stable_plans": "on", "set_stable_plans_async_commit": "off"}


async def test_a_wake_up_does_not_wait_for_the_disk(here: Outbox) -> None:
    """Whoever is told has it from memory: a relay that begins after a crash looks for itself."""
    waker = Notifier(here.settings.postgres)
    async with waker._link.lent() as connection:
        assert await connection.fetchval("show synchronous_commit") == "off"
    await waker._link.close()


async def test_a_row_that_cannot_be_unpacked_is_put_aside_and_keeps_no_other_waiting(here: Outbox) -> None:
    """Whatever is wrong with it: it ended every relay, for good. A relay that starts tries it again."""
    stub = scripted()
    await write(here.connection, staged(1))
    broken = b'{"key": ["x"], "source": [null]}'
    await here.connection.execute(WRITE, 1, 1, [1], [broken])
    await write(here.connection, staged(2))
    with listening() as heard:
        async with here.relaying(made(stub)):
            await here.becomes("key-1", "sent")
            await here.becomes("key-2", "sent")
        assert heard.counts["outbox.refused"] == 1
    row = await here.connection.fetchrow("select encoded, refused from projectionist.staged_intents")
    assert row is not None
    assert (row["encoded"], "null value" in row["refused"]) == (broken, True)

    await here.connection.execute(
        "update projectionist.staged_intents set encoded = $1", encode_intents([staged(3)])
    )
    async with here.relaying(made(stub)):
        await here.becomes("key-3", "sent")
    assert await here.connection.fetchval("select count(*) from projectionist.staged_intents") == 0

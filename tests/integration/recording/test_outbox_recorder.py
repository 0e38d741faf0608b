"""Events recorded in a producer's transaction: real with its commit, one a version, published in order by the relay."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from tests.support.app_waiter import waiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import Outbox as RelayHarness
from tests.support.outbox import outbox
from tests.support.process import projectionist
from tests.support.recording import CartOpened, CartPaid, RecordingApp
from tests.support.servers import Servers, Stream
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.operator import Act, NotThere
from projectionist.outbox import OutboxError
from projectionist.outbox.admin.intent_actions import IntentActions
from projectionist.outbox.publishing.publisher import PublishError
from projectionist.outbox.recording.recorded import EventReused, Recorded, VersionConflict
from projectionist.runner.admin.event_history import Journeys
from projectionist.runner.wait.outcome import WaitOutcome

pytestmark = pytest.mark.asyncio

KEYS = "select key from projectionist.intents order by seq"
BLOCKED = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
)


@pytest_asyncio.fixture
async def harness(database: str) -> AsyncIterator[RelayHarness]:
    async with outbox(database) as harness:
        yield harness


@pytest.fixture
def cart(servers: Servers, database: str, stream: Stream) -> RecordingApp:
    return RecordingApp(servers, database, stream)


def configure(folder: Path, cart: RecordingApp) -> dict[str, str]:
    """Settings of a relay in a process of its own; what its app has to know."""
    postgres, (nats,) = cart.settings.postgres.url, cart.settings.nats.url
    assert postgres is not None
    (folder / "projectionist.toml").write_text(
        f'[postgres]\nurl = "{postgres.reveal()}"\n[nats]\nurl = ["{nats.reveal()}"]\n'
        f"[providers.{cart.stream.name}]\nretry = {{ initial_s = 0.01, maximum_s = 0.1 }}\n"
    )
    return {"RECORDING_STREAM": cart.stream.name}


async def relayed(harness: RelayHarness, cart: RecordingApp) -> None:
    """Have a relay publish all there is."""
    await harness.end_leases()
    async with cart.relaying(harness):
        await harness.all_become("sent")


async def test_events_are_published_as_their_classes_and_the_call_say(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    span = NonRecordingSpan(SpanContext(7, 9, is_remote=False, trace_flags=TraceFlags(1)))
    connection = harness.connection
    async with connection.transaction():
        with use_span(span):
            recorded = await cart.app.outbox(connection).record(
                "cart/a.b é", CartOpened("ann"), CartPaid(7), expected_version=0, correlation="c-1"
            )
        then = await cart.app.outbox(connection).record("cart/a.b é", CartPaid(8), expected_version=2)
    assert recorded == Recorded(
        stream=cart.stream.name,
        source="cart-api",
        aggregate="cart/a.b é",
        version=2,
        ids=("cart/a.b é:1", "cart/a.b é:2"),
        hashes=recorded.hashes,
    )
    assert (then.version, then.id) == (3, "cart/a.b é:3")
    await relayed(harness, cart)
    first, second, third = await cart.stored()
    assert first.subject == cart.stream.subject("cart", "a%2Eb%20é")
    assert [message.data for message in (first, second, third)] == [
        b'{"customer":"ann"}',
        b'{"cents":7}',
        b'{"cents":8}',
    ]
    headers = dict(second.headers or {})
    trace = headers.pop("traceparent")
    assert trace.split("-")[1] == f"{7:032x}"
    assert headers.pop("ce-time")
    assert headers.pop("Nats-Msg-Id")
    assert headers == {
        "ce-specversion": "1.0",
        "ce-id": "cart/a.b%20%C3%A9:2",
        "ce-source": "cart-api",
        "ce-type": "recording.paid",
        "ce-schemaversion": "2",
        "ce-aggregatetype": "cart",
        "ce-aggregateid": "a.b%20%C3%A9",
        "ce-aggregateversion": "2",
        "ce-correlationid": "c-1",
        "Nats-Expected-Stream": cart.stream.name,
    }


async def test_a_rollback_leaves_nothing_and_no_transaction_is_refused(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    recorder = cart.app.outbox(harness.connection)
    with pytest.raises(OutboxError, match="no transaction is open"):
        await recorder.record("cart/1", CartOpened("ann"), expected_version=0)
    undone = harness.connection.transaction()
    await undone.start()
    await recorder.record("cart/1", CartOpened("ann"), expected_version=0)
    await undone.rollback()
    assert not await harness.states()
    async with harness.connection.transaction():
        await recorder.record("cart/1", CartOpened("ann"), expected_version=0)
    assert await harness.states() == {"ready": 1}


async def test_another_version_is_a_conflict_that_tells_the_actual_one(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    async with harness.connection.transaction():
        recorder = cart.app.outbox(harness.connection)
        await recorder.record("cart/1", CartOpened("ann"), CartPaid(1), expected_version=0)
        for expected, actual, aggregate in (
            (0, 2, "cart/1"),
            (1, 2, "cart/1"),
            (3, 2, "cart/1"),
            (5, 0, "cart/9"),
        ):
            with pytest.raises(VersionConflict) as raised:
                await recorder.record(aggregate, CartPaid(9), expected_version=expected)
            assert (raised.value.expected, raised.value.actual) == (expected, actual)
            assert raised.value.recorded is None
        # The transaction is whole: nothing was written by those that were refused.
        assert (await recorder.record("cart/1", CartPaid(3), expected_version=2)).version == 3
    assert await harness.states() == {"ready": 3}


@pytest.mark.parametrize("expected", [0, 1])
async def test_of_two_writers_at_once_one_is_first_and_the_other_is_told(
    harness: RelayHarness, cart: RecordingApp, database: str, expected: int
) -> None:
    """Also where both say the same: each is a fact of its own, and one of them has not happened."""
    if expected:
        async with harness.connection.transaction():
            await cart.app.outbox(harness.connection).record("cart/1", CartOpened("ann"), expected_version=0)
    other = await asyncpg.connect(database)
    try:
        first = other.transaction()
        await first.start()
        recorded = await cart.app.outbox(other).record("cart/1", CartPaid(5), expected_version=expected)

        async def second() -> None:
            async with harness.connection.transaction():
                await cart.app.outbox(harness.connection).record(
                    "cart/1", CartPaid(5), expected_version=expected
                )

        waiting = asyncio.create_task(second())

        async def blocked() -> bool:
            return bool(await other.fetchval(BLOCKED))

        await eventually(blocked)
        await first.commit()
        with pytest.raises(VersionConflict) as raised:
            await waiting
    finally:
        await other.close()
    assert (raised.value.expected, raised.value.actual) == (expected, expected + 1)
    assert raised.value.recorded == Recorded(
        **{field: getattr(recorded, field) for field in Recorded.__struct_fields__} | {"repeated": True}
    )
    assert await harness.states() == {"ready": expected + 1}


async def test_a_request_that_comes_twice_under_its_id_is_one_event(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    recorder = cart.app.outbox(harness.connection)

    async def request(
        expected: int, *events: CartOpened | CartPaid, name: str = "request-1", of: str = "cart/1"
    ) -> Recorded:
        async with harness.connection.transaction():
            return await recorder.record(of, *events, expected_version=expected, id=name)

    first = await request(0, CartOpened("ann"), CartPaid(1))
    assert (first.ids, first.repeated) == (("request-1", "request-1:2"), False)
    # The same call, and the whole request again, which reads the version anew.
    for expected in (0, 2):
        again = await request(expected, CartOpened("ann"), CartPaid(1))
        assert (again.version, again.ids, again.repeated) == (2, first.ids, True)
    for events, of in (
        ((CartOpened("bob"), CartPaid(1)), "cart/1"),
        ((CartOpened("ann"),) * 2, "cart/1"),
        ((CartOpened("ann"), CartPaid(1)), "cart/2"),
        ((CartOpened("ann"), CartPaid(1), CartPaid(2)), "cart/1"),
    ):
        with pytest.raises(EventReused, match="'request-1'"):
            await request(2, *events, of=of)
    assert await harness.states() == {"ready": 2}
    with pytest.raises(VersionConflict):
        await request(0, CartPaid(1), name="request-2")


async def test_what_cannot_be_recorded_is_refused_before_anything_is_stored(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    recorder, wrong = cart.app.outbox(harness.connection), CartPaid("seven")  # type: ignore[arg-type]
    async with harness.connection.transaction():
        refused: list[tuple[Any, list[Any], Any, str]] = [
            ("cart-1", [CartPaid(1)], 0, "does not say its type"),
            ("cart/1", [], 0, "no event to record"),
            ("cart/1", [CartPaid(1), wrong], 0, "no consumer could read"),
            ("cart/1", [CartPaid(1), CartOpened("a\0b")], 0, "no consumer could read.*escaped NUL"),
            (UUID(int=7), [CartPaid(1)], 0, "no text but a UUID"),
            (None, [CartPaid(1)], 0, "no text but a NoneType"),
            ("cart/1", [CartPaid(1)], -1, "expected_version=-1"),
            ("cart/1", [CartPaid], 0, "no event with a type"),
            ("cart/1", ["paid"], 0, "'paid' is no event"),
            ("cart/1", [CartPaid(1)], True, "expected_version=True"),
        ]
        for aggregate, events, expected, word in refused:
            with pytest.raises(PublishError, match=word):
                await recorder.record(aggregate, *events, expected_version=expected)
        for word in ("id", "correlation"):
            given: dict[str, Any] = {word: UUID(int=7)}
            with pytest.raises(PublishError, match=rf"{word} .* no text but a UUID.*{word}=str"):
                await recorder.record("cart/1", CartPaid(1), expected_version=0, **given)
        with pytest.raises(PublishError, match="id is empty"):
            await recorder.record("cart/1", CartPaid(1), expected_version=0, id="")
        assert (await recorder.record("cart/1", CartPaid(1), expected_version=0)).version == 1


async def test_a_journey_finds_an_event_before_anybody_has_read_it(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    async with harness.connection.transaction():
        recorded = await cart.app.outbox(harness.connection).record(
            "cart/1", CartOpened("ann"), expected_version=0
        )
    journeys = Journeys(harness.connection, "projectionist")
    (found,) = await journeys.events(recorded.id)
    assert (found.source, found.consumers[0].consumer) == ("cart-api", "a producer")
    assert [(one["class"], one["state"]) for one in found.consumers[0].intents] == [
        ("recording.opened", "ready")
    ]
    with pytest.raises(NotThere):
        await journeys.events("cart/1:2")


async def test_who_waits_for_what_was_recorded_wakes_the_relay_and_sees_it(
    harness: RelayHarness, cart: RecordingApp, live: ConsumerHarness
) -> None:
    await live.migrate(cart.view)
    app, connection = waiting(cart.app, cart.settings), harness.connection
    with listening() as heard:
        async with (
            live.running(cart.view),
            cart.relaying(harness, poll_s=10 * HANG_S),
            app.publisher() as publisher,
        ):
            await heard.wait("relay.listening")
            async with connection.transaction():
                first = await app.outbox(connection).record(
                    "cart/1", CartOpened("ann"), CartPaid(7), expected_version=0
                )
            assert (await app.wait_for(cart.view, first, timeout_s=HANG_S)).is_applied
            assert await live.rows("cart_view") == [("1", "ann", 7)]
            second = await publisher.record("cart/2", CartOpened("bob"), expected_version=0)
            assert (await app.wait_for(cart.view, second, timeout_s=HANG_S)).is_applied
            elsewhere = msgspec.structs.replace(first, stream="OTHER")
            assert (
                await app.wait_for(cart.view, elsewhere, timeout_s=HANG_S)
            ).outcome is WaitOutcome.NOT_MEANT
    for recorded, consumers in ((first, ["CartView", "a producer"]), (second, ["CartView"])):
        (found,) = await Journeys(connection, "projectionist").events(recorded.id)
        assert (found.aggregate, found.version) == (recorded.aggregate, recorded.version)
        assert [one.consumer for one in found.consumers] == consumers


async def test_an_event_larger_than_the_server_takes_is_dead_and_says_so(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    """The database does not know what the server takes; what is behind it waits."""
    async with cart.client() as client:
        customer = "a" * client.max_payload
    async with harness.connection.transaction():
        await cart.app.outbox(harness.connection).record(
            "cart/1", CartOpened(customer), CartPaid(7), expected_version=0
        )
    key = await harness.connection.fetchval(f"{KEYS} limit 1")
    async with cart.relaying(harness):
        await harness.becomes(key, "dead")
    (attempt,) = await harness.attempts(key)
    assert (attempt["outcome"], attempt["reason"]) == ("refused", "larger than the server takes")
    assert await harness.states() == {"dead": 1, "ready": 1}
    assert await cart.told() == []
    async with cart.app.publisher() as publisher:
        with pytest.raises(PublishError, match="the broker takes no event of"):
            await publisher.record("cart/2", CartOpened(customer), expected_version=0)


async def test_an_event_is_not_taken_for_another_one_that_bears_its_id(
    harness: RelayHarness, cart: RecordingApp, live: ConsumerHarness
) -> None:
    """Two ways into one aggregate give one version, and so one id, twice."""
    await live.migrate(cart.view)
    app, connection = waiting(cart.app, cart.settings), harness.connection
    async with live.running(cart.view), app.publisher() as publisher:
        first = await publisher.record("cart/1", CartOpened("ann"), expected_version=0)
        assert (await app.wait_for(cart.view, first, timeout_s=HANG_S)).is_applied
        async with connection.transaction():
            other = await app.outbox(connection).record("cart/1", CartOpened("bob"), expected_version=0)
        assert other.ids == first.ids
        assert (await app.wait_for(cart.view, other, timeout_s=1)).outcome is WaitOutcome.PENDING
        async with cart.relaying(harness):
            found = await app.wait_for(cart.view, other, timeout_s=HANG_S)
        assert found.outcome is WaitOutcome.QUARANTINED
        assert (await app.wait_for(cart.view, first, timeout_s=HANG_S)).is_applied
    assert await live.rows("cart_view") == [("1", "ann", 0)]


@pytest.mark.parametrize("step", ["relay.leased", "relay.started", "relay.replied"])
async def test_a_relay_killed_around_a_publish_stores_each_event_once_in_order(
    harness: RelayHarness, cart: RecordingApp, tmp_path: Path, step: str
) -> None:
    """At relay.replied the stream has the event, and nothing on record says so."""
    async with harness.connection.transaction():
        await cart.app.outbox(harness.connection).record(
            "cart/1", CartOpened("ann"), *(CartPaid(n) for n in range(1, 4)), expected_version=0
        )
    env = configure(tmp_path, cart)
    async with projectionist(
        "relay", "tests.support.recording_app:app", cwd=tmp_path, kill_at={step: 2}, env=env
    ) as first:
        assert (await first.ended()).code == -signal.SIGKILL
    await relayed(harness, cart)
    assert [(one[0], one[2]) for one in await cart.told()] == [(f"cart/1:{n}", f"{n}") for n in range(1, 5)]


async def test_an_event_that_the_stream_refuses_holds_those_behind_it(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    async with cart.client() as client:
        jetstream, name = client.jetstream(), cart.stream.name
        config = (await jetstream.stream_info(name)).config
        await jetstream.update_stream(config.evolve(max_msg_size=2000))
        async with harness.connection.transaction():
            recorder = cart.app.outbox(harness.connection)
            await recorder.record("cart/1", CartOpened("a" * 3000), CartPaid(1), expected_version=0)
            await recorder.record("cart/2", CartPaid(2), expected_version=0)
        keys = [row["key"] for row in await harness.connection.fetch(KEYS)]
        async with cart.relaying(harness):
            await harness.becomes(keys[0], "dead")
            await harness.becomes(keys[2], "sent")
        assert await harness.state(keys[1]) == "ready"
        await jetstream.update_stream(config)
    await IntentActions(harness.connection, "projectionist").retry([keys[0]], Act("ann", "made larger"))
    await relayed(harness, cart)
    assert [one[0] for one in await cart.told()] == ["cart/2:1", "cart/1:1", "cart/1:2"]


async def test_a_producer_killed_after_its_commit_has_published_and_before_it_has_not(
    harness: RelayHarness, cart: RecordingApp, database: str
) -> None:
    for aggregate in ("cart/kept", "cart/lost"):
        connection = await asyncpg.connect(database)
        open_one = connection.transaction()
        await open_one.start()
        await cart.app.outbox(connection).record(aggregate, CartOpened("ann"), expected_version=0)
        if aggregate == "cart/kept":
            await open_one.commit()
        connection.terminate()
    await relayed(harness, cart)
    assert [one[0] for one in await cart.told()] == ["cart/kept:1"]


async def test_an_aggregate_that_began_in_another_way_is_taken_over_at_its_version(
    harness: RelayHarness, cart: RecordingApp
) -> None:
    await harness.connection.execute(
        "insert into projectionist.recorded_aggregates (stream, aggregate, version) values ($1, 'cart/1', 41)",
        cart.stream.name,
    )
    async with harness.connection.transaction():
        recorder = cart.app.outbox(harness.connection)
        assert (await recorder.record("cart/1", CartPaid(1), expected_version=41)).version == 42

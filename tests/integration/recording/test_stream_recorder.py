"""Events recorded without a database: the stream's last message of the subject says which version comes next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig, StreamSource, SubjectTransform
from tests.support.recording import CartOpened, CartPaid, RecordingApp
from tests.support.servers import Servers, Stream

from projectionist.api import App
from projectionist.api import Stream as DeclaredStream
from projectionist.outbox.providers import ProviderContext
from projectionist.outbox.providers.base import NotReady
from projectionist.outbox.providers.recorded_events import RecordedEvents, RecordedEventSettings
from projectionist.outbox.publishing import publisher as publisher_of
from projectionist.outbox.publishing.publisher import NotPublished, PublishError, WrongSequence
from projectionist.outbox.recording import stream_recorder
from projectionist.outbox.recording.recorded import EventReused, Recorded, VersionConflict
from projectionist.outbox.recording.stream_recorder import StreamRecorder

pytestmark = pytest.mark.asyncio


@pytest.fixture
def cart(servers: Servers, database: str, stream: Stream) -> RecordingApp:
    return RecordingApp(servers, database, stream)


def ids(told: list[tuple[Any, ...]]) -> list[str]:
    return [one[0] for one in told]


async def test_events_are_stored_with_consecutive_versions(cart: RecordingApp) -> None:
    async with cart.app.publisher() as publisher:
        first = await publisher.record("cart/1", CartOpened("ann"), CartPaid(7), expected_version=0)
        other = await publisher.record("cart/2", CartOpened("bob"), expected_version=0, correlation="c")
        then = await publisher.record("cart/1", CartPaid(8), expected_version=2)
    assert first == Recorded(
        stream=cart.stream.name,
        source="cart-api",
        aggregate="cart/1",
        version=2,
        ids=("cart/1:1", "cart/1:2"),
        sequence=2,
        token=first.token,
        hashes=first.hashes,
    )
    assert (other.sequence, then.sequence, then.version) == (3, 4, 3)
    assert await cart.told() == [
        ("cart/1:1", "recording.opened", "1", '{"customer":"ann"}'),
        ("cart/1:2", "recording.paid", "2", '{"cents":7}'),
        ("cart/2:1", "recording.opened", "1", '{"customer":"bob"}'),
        ("cart/1:3", "recording.paid", "3", '{"cents":8}'),
    ]


async def test_another_version_is_a_conflict_and_says_if_the_same_stands_there(cart: RecordingApp) -> None:
    async with cart.app.publisher() as publisher:
        first = await publisher.record("cart/1", CartOpened("ann"), CartPaid(7), expected_version=0)
        for expected, actual, events, same in (
            (0, 2, (CartOpened("bob"),), False),
            (0, 2, (CartOpened("ann"), CartPaid(7)), True),
            (1, 2, (CartPaid(7),), True),
            (1, 2, (CartPaid(7), CartPaid(8)), False),
            (3, 2, (CartPaid(8),), False),
        ):
            with pytest.raises(VersionConflict) as raised:
                await publisher.record("cart/1", *events, expected_version=expected)
            assert (raised.value.expected, raised.value.actual) == (expected, actual)
            assert (raised.value.recorded is not None) == same
        with pytest.raises(VersionConflict) as raised:
            await publisher.record("cart/9", CartPaid(8), expected_version=1)
        assert raised.value.actual == 0
    assert ids(await cart.told()) == list(first.ids)


async def test_of_writers_at_once_each_version_has_one(cart: RecordingApp) -> None:
    """Also where all say the same: each is a fact of its own."""

    async def write() -> Recorded | VersionConflict:
        async with cart.app.publisher() as publisher:
            try:
                return await publisher.record("cart/1", CartPaid(1), expected_version=0)
            except VersionConflict as conflict:
                return conflict

    answers = await asyncio.gather(*(write() for _ in range(5)))
    assert len([one for one in answers if isinstance(one, Recorded)]) == 1
    assert {one.actual for one in answers if isinstance(one, VersionConflict)} == {1}
    assert ids(await cart.told()) == ["cart/1:1"]


@pytest.mark.parametrize("looks", [256, 1])
async def test_a_request_that_comes_twice_under_its_id_is_one_event(
    cart: RecordingApp, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Found by looking back, or remembered by the stream."""
    monkeypatch.setattr(stream_recorder, "LOOK_BACK", looks)
    async with cart.app.publisher() as publisher:
        first = await publisher.record(
            "cart/1", CartOpened("ann"), CartPaid(1), expected_version=0, id="request-1"
        )
        last = await publisher.record("cart/1", CartPaid(2), expected_version=2, id="request-2")
        again = await publisher.record(
            "cart/1", CartOpened("ann"), CartPaid(1), expected_version=3, id="request-1"
        )
        assert (again.version, again.ids, again.repeated) == (2, first.ids, True)
        for expected in (2, 3):
            again = await publisher.record("cart/1", CartPaid(2), expected_version=expected, id="request-2")
            assert (again.version, again.ids, again.repeated) == (3, last.ids, True)
        for aggregate, event in (("cart/1", CartPaid(3)), ("cart/1", CartOpened("2"))):
            with pytest.raises(EventReused, match="'request-2'"):
                await publisher.record(aggregate, event, expected_version=3, id="request-2")
    assert ids(await cart.told()) == ["request-1", "request-1:2", "request-2"]


async def test_of_a_call_with_an_event_that_is_too_large_nothing_is_stored(cart: RecordingApp) -> None:
    async with cart.app.publisher() as publisher:
        with pytest.raises(PublishError, match="the broker takes no event of"):
            await publisher.record("cart/1", CartPaid(1), CartOpened("x" * 2_000_000), expected_version=0)
    assert await cart.told() == []


async def test_the_id_of_another_aggregates_event_is_refused(cart: RecordingApp) -> None:
    async with cart.app.publisher() as publisher:
        await publisher.record("cart/1", CartPaid(2), expected_version=0, id="request-1")
        with pytest.raises(EventReused):
            await publisher.record("cart/2", CartPaid(2), expected_version=0, id="request-1")
    assert len(await cart.told()) == 1


@pytest.mark.parametrize("name", [None, "request-1"])
async def test_a_call_that_ended_on_the_way_is_gone_on_with_under_its_id(
    cart: RecordingApp, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    sent = publisher_of.Publisher.send
    numbers = iter(range(10))

    async def once(self: Any, draft: Any) -> Any:
        if next(numbers) == 1:
            raise NotPublished("cut off")
        return await sent(self, draft)

    monkeypatch.setattr(publisher_of.Publisher, "send", once)
    events = CartOpened("ann"), CartPaid(1), CartPaid(2)
    async with cart.app.publisher() as publisher:
        with pytest.raises(NotPublished):
            await publisher.record("cart/1", *events, expected_version=0, id=name)
        if name is None:
            with pytest.raises(VersionConflict, match=r"1 of 3 events of this call are stored"):
                await publisher.record("cart/1", *events, expected_version=0)
            await publisher.record("cart/1", *events[1:], expected_version=1)
        else:
            assert (await publisher.record("cart/1", *events, expected_version=0, id=name)).version == 3
    assert [one[2] for one in await cart.told()] == ["1", "2", "3"]


async def test_aggregates_that_share_a_subject_have_versions_of_their_own(
    cart: RecordingApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cart.app.publisher() as publisher:
        await publisher.record("cart/1", CartOpened("ann"), expected_version=0)
        await publisher.record("box/1", CartOpened("ann"), CartPaid(1), expected_version=0)
        assert (await publisher.record("cart/1", CartPaid(1), expected_version=1)).version == 2
        monkeypatch.setattr(stream_recorder, "LOOK_BACK", 1)
        with pytest.raises(PublishError, match=r"cannot be told.*\{type\}"):
            await publisher.record("box/1", CartPaid(1), expected_version=2)


async def test_a_stream_that_is_not_there_is_told(cart: RecordingApp, servers: Servers) -> None:
    servers.delete_stream(cart.stream)
    async with cart.app.publisher() as publisher:
        with pytest.raises(PublishError, match=r"there is no stream .*migrate --streams"):
            await publisher.record("cart/1", CartOpened("ann"), expected_version=0)


async def renamed(cart: RecordingApp, name: str) -> None:
    """Have the stream store events under another name."""
    stream = cart.stream.name
    async with cart.client() as client:
        config = (await client.jetstream().stream_info(stream)).config
        config.subject_transform = SubjectTransform(src=f"{stream}.cart.*", dest=f"{stream}.p.{name}")
        await client.jetstream().update_stream(config)


async def test_a_stream_that_renames_is_read_under_its_own_names(cart: RecordingApp) -> None:
    await renamed(cart, "{{partition(2,1)}}.{{wildcard(1)}}")
    async with cart.app.publisher() as publisher:
        for aggregate in ("cart/1", "cart/2"):
            await publisher.record(aggregate, CartOpened("ann"), expected_version=0)
        assert (await publisher.record("cart/1", CartPaid(1), expected_version=1)).version == 2
        with pytest.raises(VersionConflict):
            await publisher.record("cart/1", CartPaid(1), expected_version=1)


async def test_where_the_server_counts_in_another_way_no_call_goes_on_for_ever(cart: RecordingApp) -> None:
    await renamed(cart, "{{partition(2,1)}}")
    async with cart.app.publisher() as publisher:
        wrong = 0
        for n in range(8):
            try:
                await publisher.record(f"cart/{n}", CartPaid(n), expected_version=0)
            except WrongSequence:
                wrong += 1
    assert 0 < wrong == 8 - len(await cart.told())


async def test_a_mirror_takes_no_events_and_names_its_origin(cart: RecordingApp, stream: Stream) -> None:
    """What is published under its subjects is stored by the origin, and read in the mirror later."""
    mirror = f"{stream.name}_MIRROR"
    declared = DeclaredStream(mirror, f"{stream.name}.{{id}}", source="cart-api", events=[CartOpened])
    app = App(streams=[declared], settings=cart.settings)
    said = f"{mirror} is a mirror of {stream.name}, and takes no events"
    async with cart.client() as client, app.publisher() as publisher:
        await client.jetstream().add_stream(StreamConfig(name=mirror, mirror=StreamSource(name=stream.name)))
        try:
            with pytest.raises(PublishError, match=said):
                await publisher.record("cart/1", CartOpened("ann"), expected_version=0)

            async def given() -> Client:
                return client

            provider = RecordedEvents(mirror, RecordedEventSettings(), ProviderContext(nats=given))
            with pytest.raises(NotReady, match=said):
                await provider.open()
        finally:
            await client.jetstream().delete_stream(mirror)
    assert await cart.told() == []


async def test_a_server_that_gives_no_answer_is_told_and_the_call_made_again_goes_on(
    cart: RecordingApp, servers: Servers
) -> None:
    async with cart.client() as client, StreamRecorder(client, cart.app.stream_of, within_s=0.1) as impatient:
        with servers.nats_stopped(), pytest.raises(NotPublished, match=r"no answer within 0\.1 s"):
            await impatient.record("cart/1", CartOpened("ann"), expected_version=0)
        async with StreamRecorder(client, cart.app.stream_of) as patient:
            assert (await patient.record("cart/1", CartOpened("ann"), expected_version=0)).version == 1

"""Parked events beyond their aggregate's limit: the bytes stay in the stream, and are fetched when they are needed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, OrderShipped, shop
from tests.support.waiting import eventually, listening

from projectionist.core.operator import Act
from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.core.settings.settings import Policy
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError, StoredMessage

pytestmark = pytest.mark.asyncio

ME = Act("ann", "test")
POLICY = Policy(
    max_parked_payloads=3,
    drain_batch_size=4,
    gap_fetch_delay_ms=50,
    late_s=0,
    retry=RetryPolicy(initial_s=0.01, maximum_s=0.01),
)


async def parked(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    """Version, cause, and whether the bytes are there, of everything that is parked."""
    return await live.fetch("select version, cause, data is not null from {s}.parked order by version")


async def behind_a_gap(live: ConsumerHarness, s: Any, upto: int) -> dict[int, int]:
    """Versions 2 to `upto` of one order, parked; the stream sequence of each."""
    seqs = {v: await live.publish(OrderNoted(f"n{v}"), "o1", v, id=f"e{v}") for v in range(2, upto + 1)}
    await live.settle(s.Orders, policy=POLICY)
    return seqs


async def notes(live: ConsumerHarness) -> list[str]:
    """What happened to the order, as its row tells it."""
    [(text,)] = await live.fetch("select history::text from orders where order_id = 'o1'")
    return msgspec.json.decode(text, type=list[str])


async def test_payloads_beyond_the_limit_stay_in_the_stream_and_a_filled_gap_drains_them(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await behind_a_gap(live, s, 15)
    assert await parked(live) == [(v, "gap", v <= 4) for v in range(2, 16)]
    assert await live.unaccounted(s.Orders) == []

    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="e1")
    with listening() as heard:
        await live.settle(s.Orders, policy=POLICY)

    assert await notes(live) == ["placed", *(f"n{v}" for v in range(2, 16))]
    assert await live.head(s.Orders, "order/o1") == (15, "clear", 0)
    assert set((await live.states(s.Orders)).values()) == {"applied"}
    assert await parked(live) == []
    assert 3 <= heard.counts["references.fetched"] <= 4


async def test_parking_behind_one_gap_never_stops_what_others_do(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in range(2, 600):
        await live.publish(OrderNoted("n"), "o1", version)
    await live.publish(OrderPlaced("bob", 7), "o2", 1)

    await live.settle(s.Orders, policy=POLICY, limits=Limits(max_rows=50))

    assert await live.rows("orders") == [("o2", "placed", 7, '["placed"]')]
    assert await live.head(s.Orders, "order/o1") == (0, "gap", 598)
    assert await live.value("select count(*) from {s}.parked where data is not null") == 3


async def test_followers_of_a_failed_event_are_references_too_and_drain_after_the_fix(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 2)
    for version in range(3, 9):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)
    await live.settle(s.Orders, policy=POLICY)
    assert await parked(live) == [
        (2, "failed", True),
        *((v, "blocked", v <= 4) for v in range(3, 9)),
    ]

    s.trouble.poison.clear()
    async with live.running(s.Orders, policy=POLICY):
        async with live.verbs(s.Orders) as verbs:
            await verbs.retry("order/o1", ME)
        await live.settled(s.Orders)

    assert await notes(live) == ["placed", "bad", *(f"n{v}" for v in range(3, 9))]


async def test_the_data_of_a_structured_event_is_found_inside_its_message(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in range(2, 7):
        event = {
            "specversion": "1.0",
            "id": f"e{version}",
            "source": "shop",
            "type": "order.noted",
            "aggregatetype": "order",
            "aggregateid": "o1",
            "aggregateversion": str(version),
            "data": {"text": f"n{version}"},
        }
        await live.publish_raw(
            msgspec.json.encode(event), {"content-type": "application/cloudevents+json"}, "o1"
        )
    await live.settle(s.Orders, policy=POLICY)
    assert [there for _, _, there in await parked(live)] == [True] * 3 + [False] * 2

    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders, policy=POLICY)

    assert await notes(live) == ["placed", "n2", "n3", "n4", "n5", "n6"]


async def test_the_setting_of_what_same_content_means_may_change_while_a_reference_waits(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    canonical = msgspec.structs.replace(POLICY, hash="canonical", max_parked_payloads=1)
    for version in (2, 3):
        head = {
            "ce-id": f"e{version}",
            "ce-source": "shop",
            "ce-type": "order.noted",
            "ce-aggregatetype": "order",
        }
        head |= {"ce-aggregateid": "o1", "ce-aggregateversion": str(version)}
        await live.publish_raw(b'{ "text" : "n" }', head, "o1")
    await live.settle(s.Orders, policy=canonical)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)

    await live.settle(s.Orders, policy=POLICY)

    assert await notes(live) == ["placed", "n", "n"]


@pytest.mark.parametrize("how", ["deleted", "other stream"])
async def test_a_purged_payload_stops_its_aggregate_with_a_clear_error_until_a_decision(
    live: ConsumerHarness, how: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seqs = await behind_a_gap(live, s, 8)
    if how == "deleted":
        await live.nats.jetstream().delete_msg(live.stream.name, seqs[6])
    else:
        await live.fetch("update {s}.parked set incarnation = 0 where version = 6")
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPlaced("bob", 5), "o2", 1, id="bob")
    await live.settle(s.Orders, policy=POLICY)

    assert await notes(live) == ["placed", "n2", "n3", "n4", "n5"]
    assert await live.head(s.Orders, "order/o1") == (5, "waiting", 3)
    assert await live.head(s.Orders, "order/o2") == (1, "clear", 0)
    [(version, cause, error, attempts)] = await live.fetch(
        "select version, cause, error, attempts from {s}.parked where error is not null"
    )
    assert (version, cause, attempts) == (6, "failed", 1)
    assert f"sequence {seqs[6]} of the stream" in error
    assert {"deleted": "no longer holds it", "other stream": "has replaced"}[how] in error

    async with live.running(s.Orders, policy=POLICY), live.verbs(s.Orders) as verbs:
        await verbs.retry("order/o1", ME)
        await eventually(lambda: attempted(live, 2))
        assert await live.head(s.Orders, "order/o1") == (5, "waiting", 3)
        await verbs.edit(("shop", "e6"), b'{"text":"n6 by hand"}', b"digest", ME)
        await live.settled(s.Orders)

    assert await notes(live) == ["placed", "n2", "n3", "n4", "n5", "n6 by hand", "n7", "n8"]
    assert await live.head(s.Orders, "order/o1") == (8, "clear", 0)


async def attempted(live: ConsumerHarness, times: int) -> bool:
    return bool(await live.value("select true from {s}.parked where attempts = $1", times))


async def test_a_message_that_is_another_event_by_now_is_not_taken_for_the_parked_one(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seqs = await behind_a_gap(live, s, 6)
    await live.fetch("update {s}.parked set seq = $1 where version = 5", seqs[6])
    await live.publish(OrderPlaced("ann", 5), "o1", 1)

    await live.settle(s.Orders, policy=POLICY)

    assert await live.head(s.Orders, "order/o1") == (4, "waiting", 2)
    assert "holds another event" in await inspection.value(live, "parked", "error", version=5)


async def test_bytes_come_back_with_their_stream_and_a_retry_goes_on(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seqs = await behind_a_gap(live, s, 6)
    await live.fetch("update {s}.parked set seq = 999999 where version = 5")
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    async with live.running(s.Orders, policy=POLICY), live.verbs(s.Orders) as verbs:
        await eventually(lambda: attempted(live, 1))
        await live.fetch("update {s}.parked set seq = $1 where version = 5", seqs[5])
        await verbs.retry("order/o1", ME)
        await live.settled(s.Orders)
        await inspection.reaches(0, inspection.count_parked, live)

    assert await notes(live) == ["placed", "n2", "n3", "n4", "n5", "n6"]


async def test_what_was_decided_against_or_nobody_handles_needs_no_bytes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seqs = await behind_a_gap(live, s, 6)
    shipped = await live.publish(OrderShipped(), "o1", 7, id="e7")
    await live.publish(OrderNoted("n8"), "o1", 8, id="e8")
    await live.settle(s.Orders, policy=POLICY)
    async with live.verbs(s.Orders) as verbs:
        await verbs.discard(("shop", "e6"), ME)
    for seq in (seqs[6], shipped):
        await live.nats.jetstream().delete_msg(live.stream.name, seq)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)

    await live.settle(s.Orders, policy=POLICY)

    assert await notes(live) == ["placed", "n2", "n3", "n4", "n5", "n8"]
    states = await live.states(s.Orders)
    assert (states["e6"], states["e7"]) == ("discarded", "ignored")


async def test_a_head_is_put_off_and_no_attempt_counted_while_the_broker_is_unreachable(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await behind_a_gap(live, s, 9)
    asked, ask = 0, api.message

    async def down(*_: Any) -> StoredMessage | None:
        nonlocal asked
        asked += 1
        raise BrokerError("no leader")

    monkeypatch.setattr(api, "message", down)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    async with live.running(s.Orders, policy=POLICY):
        with listening() as heard:
            await heard.wait("due.settled", 2)  # each a second after the one before: the head is put off
        assert asked < 40
        assert await live.head(s.Orders, "order/o1") == (4, "draining", 5)
        assert await live.value("select max(attempts) from {s}.parked") == 0
        monkeypatch.setattr(api, "message", ask)
        await inspection.reaches(0, inspection.count_parked, live)

    assert await notes(live) == ["placed", *(f"n{v}" for v in range(2, 10))]


async def test_the_broker_is_never_asked_inside_a_transaction(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await behind_a_gap(live, s, 9)
    ask, open_ones = api.message, []

    async def watched(*args: Any) -> StoredMessage | None:
        open_ones.append(
            await live.value(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name = 'projectionist Orders' and xact_start is not null"
            )
        )
        return await ask(*args)

    monkeypatch.setattr(api, "message", watched)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.settle(s.Orders, policy=POLICY)

    assert len(open_ones) >= 5
    assert set(open_ones) == {0}


async def test_a_fetch_and_a_drain_stop_at_a_number_of_bytes(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    policy = msgspec.structs.replace(POLICY, max_parked_payloads=1, drain_batch_size=500)
    limits = Limits(max_bytes=policy.max_event_bytes)
    text = "x" * 400_000
    for version in range(2, 52):
        await live.publish(OrderNoted(text if version > 2 else "small"), "o1", version)
    await live.settle(s.Orders, policy=policy, limits=limits)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)

    with listening() as heard:
        await live.settle(s.Orders, policy=policy, limits=limits)

    assert await live.head(s.Orders, "order/o1") == (51, "clear", 0)
    assert heard.counts["references.fetched"] >= 3

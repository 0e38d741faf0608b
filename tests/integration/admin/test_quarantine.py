"""What could not be read: read again, corrected, or dropped, and in the end accounted for once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core.operator import Act, NotThere, TooLate
from projectionist.core.settings.settings import Headers, Policy
from projectionist.projections import Projection, on
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError, StoredMessage

pytestmark = pytest.mark.asyncio

ME = Act("ann", "the producer forgot it")


async def without_version(live: ConsumerHarness, event: Any, aggregate: str = "o1", **headers: str) -> int:
    """An event whose aggregate has no version: it cannot be read where order counts."""
    return await live.publish(event, aggregate, None, headers=headers)


async def entries(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    return await live.fetch("select seq, state, reason, attempts from {s}.quarantine order by seq")


async def accounted_once(live: ConsumerHarness, cls: type) -> None:
    """Every sequence has one outcome, and none has two."""
    assert await live.unaccounted(cls) == []
    twice = await live.fetch(
        """select seq from (
            select incarnation, seq from {s}.inbox where state <> 'quarantined'
            union all select incarnation, seq from {s}.duplicates
            union all select incarnation, seq from {s}.quarantine where state = 'quarantined'
            union all select incarnation, seq from {s}.quarantine q where state = 'discarded' and not exists (
                select from {s}.inbox i where i.incarnation = q.incarnation and i.seq = q.seq)
        ) outcome group by incarnation, seq having count(*) > 1"""
    )
    assert twice == []


async def released(live: ConsumerHarness, count: int = 1) -> None:
    await inspection.reaches(count, inspection.count_quarantined, live, state="released")


async def tried(live: ConsumerHarness, times: int = 1) -> None:
    await eventually(lambda: live.value("select count(*) > 0 from {s}.quarantine where attempts = $1", times))


async def test_supplied_headers_settle_an_event_that_lacked_them_like_any_other(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await without_version(live, OrderPaid(5), **{"ce-id": "b"})
    await live.publish(OrderNoted("n3"), "o1", 3, id="c")
    await live.settle(s.Orders)
    assert await entries(live) == [(seq, "quarantined", "version", 0)]

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "2"})
        await released(live)

    assert await live.rows("orders") == [("o1", "paid", 5, '["placed", "paid", "n3"]')]
    assert await live.states(s.Orders) == {"a": "applied", "b": "applied", "c": "applied"}
    assert await live.value("select seq from {s}.inbox where id = 'b'") == seq
    assert await inspection.count_intents(live) == 1
    await accounted_once(live, s.Orders)

    [decision] = await live.fetch(
        "select kind, incarnation, seq, aggregate, version, headers, data, actor, reason from {s}.decisions"
    )
    assert decision[:5] == ("edit", 1, seq, None, None)
    assert b"ce-aggregateversion: 2\r\n" in decision[5]
    assert decision[6:] == (None, "ann", "the producer forgot it")
    [(action, detail)] = await live.fetch("select action, detail::text from {s}.audit where who = 'ann'")
    assert action == "edit"
    first = await live.value("select encode(hash, 'hex') from {s}.quarantine")
    assert msgspec.json.decode(detail) == {
        "first": first,
        "edited": first,
        "headers": ["ce-aggregateversion"],
    }


async def test_corrected_data_is_read_instead_and_both_hashes_are_on_record(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": "a",
        "source": "shop",
        "type": "order.placed",
        "aggregateid": "o1",
    }
    event |= {"aggregatetype": "order", "aggregateversion": "1", "data": {"customer": "ann", "cents": 5}}
    whole = msgspec.json.encode(event)
    seq = await live.publish_raw(whole[:-2], {"content-type": "application/cloudevents+json"}, "o1")
    await live.settle(s.Orders)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, data=whole)
        await released(live)

    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    detail = msgspec.json.decode(await live.value("select detail::text from {s}.audit where who = 'ann'"))
    assert detail["first"] == await live.value("select encode(hash, 'hex') from {s}.quarantine")
    assert detail["edited"] == await live.value("select encode(hash, 'hex') from {s}.decisions")
    assert detail["first"] != detail["edited"]
    assert await live.value("select data from {s}.quarantine") == whole[:-2], "what came stays as evidence"
    await accounted_once(live, s.Orders)


async def test_the_last_edit_counts_and_may_take_a_header_away(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"ce-time": "yesterday"})
    await live.settle(s.Orders)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await tried(live)
        assert await entries(live) == [(seq, "quarantined", "time", 1)]
        await verbs.edit((1, seq), ME, headers={"CE-Time": None, "ce-aggregateid": "o1"})
        await released(live)

    assert await live.head(s.Orders, "order/o1") == (1, "clear", 0)


async def test_a_retry_reads_by_the_settings_of_now(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"x-version": "1"})
    await live.settle(s.Orders)

    policy = Policy(headers=Headers(version="x-version"))
    async with live.running(s.Orders, policy=policy), live.quarantine(s.Orders) as verbs:
        await verbs.retry((1, seq), ME)
        await released(live)

    assert await live.head(s.Orders, "order/o1") == (1, "clear", 0)
    assert await inspection.count_decisions(live) == 0
    await accounted_once(live, s.Orders)


async def test_what_still_cannot_be_read_stays_and_its_attempts_are_counted(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5))
    await live.settle(s.Orders)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        for attempt in (1, 2):
            await verbs.retry((1, seq), ME)
            await tried(live, attempt)

    assert await entries(live) == [(seq, "quarantined", "version", 2)]
    assert await live.value("select due is null from {s}.quarantine")
    await accounted_once(live, s.Orders)


async def test_new_code_reads_by_itself_what_older_code_could_not(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"x-version": "1"})
    await live.settle(s.Orders)

    class Orders(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
    ):
        """The same table under newer code."""

        order_id: str
        status: str = "new"
        cents: int = 0
        history: list[str] = []

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.status = "placed by newer code"

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.status = "paid"

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

    async with live.running(Orders, policy=Policy(headers=Headers(version="x-version"))):
        await released(live)
    assert await live.rows("orders") == [("o1", "placed by newer code", 0, "[]")]

    other = await without_version(live, OrderPlaced("bob", 5), "o2")
    await live.settle(Orders)
    async with live.running(Orders):
        with listening() as heard:
            await heard.wait("heart.beat", 4)
    assert await entries(live) == [(seq, "released", "version", 0), (other, "quarantined", "version", 0)]


@pytest.mark.parametrize("which", ["identity", "version"])
async def test_what_contradicts_another_event_can_only_be_discarded(
    live: ConsumerHarness, which: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await live.publish(OrderPlaced("bob", 9), "o1", 1, id="a" if which == "identity" else "b")
    await live.settle(s.Orders)
    assert await entries(live) == [(seq, "quarantined", f"{which}_reuse", 0)]

    async with live.quarantine(s.Orders) as verbs:
        with pytest.raises(NotThere, match=f"its {which} belongs to another event") as refused:
            await verbs.retry((1, seq), ME)
        assert "Discard it" in str(refused.value.remedy)
        with pytest.raises(NotThere, match="belongs to another event"):
            await verbs.edit((1, seq), ME, data=b"{}")
        await verbs.discard((1, seq), ME)

    assert await entries(live) == [(seq, "discarded", f"{which}_reuse", 0)]
    assert (await live.states(s.Orders)) == (
        {"a": "applied"} if which == "identity" else {"a": "applied", "b": "discarded"}
    )
    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    await accounted_once(live, s.Orders)


async def test_the_version_of_a_discarded_contradiction_is_not_stepped_over(live: ConsumerHarness) -> None:
    """It was applied, by the other event: a third claimant is a contradiction again, not a late one."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await live.publish(OrderPlaced("bob", 9), "o1", 1, id="b")
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.discard((1, seq), ME)
    third = await live.publish(OrderPlaced("cleo", 7), "o1", 1, id="c")

    await live.settle(s.Orders)

    assert (await entries(live))[1] == (third, "quarantined", "version_reuse", 0)
    assert await inspection.count_incidents(live, kind="late") == 0
    assert await live.fetch("select kind, aggregate from {s}.decisions where kind <> 'winner'") == [
        ("discard", None)
    ]


async def test_a_discarded_entry_is_done_with(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5))
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.discard((1, seq), ME)
        for late in (
            verbs.discard((1, seq), ME),
            verbs.retry((1, seq), ME),
            verbs.edit((1, seq), ME, data=b""),
        ):
            with pytest.raises(TooLate, match="in quarantine no more") as told:
                await late
            assert "discarded" in str(told.value.remedy)
        with pytest.raises(NotThere, match="nothing of sequence 99"):
            await verbs.retry((1, 99), ME)
        with pytest.raises(NotThere, match="needs headers or data"):
            await verbs.edit((1, seq), ME)

    await live.settle(s.Orders)
    assert await entries(live) == [(seq, "discarded", "version", 0)]
    assert await live.fetch("select kind, seq, aggregate from {s}.decisions") == [("discard", seq, None)]
    await accounted_once(live, s.Orders)


async def test_an_entry_that_becomes_an_event_behind_a_gap_parks_with_its_corrected_bytes(
    live: ConsumerHarness,
) -> None:
    """Never as a reference: the stream holds what cannot be read."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    policy = Policy(max_parked_payloads=1, gap_fetch_delay_ms=20, late_s=0)
    await live.publish(OrderNoted("n2"), "o1", 2)
    seq = await without_version(live, OrderNoted("wrong"))
    await live.publish(OrderNoted("n4"), "o1", 4)
    async with live.running(s.Orders, policy=policy), live.quarantine(s.Orders) as verbs:
        await live.settled(s.Orders)
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "3"}, data=b'{"text":"n3"}')
        await released(live)
        assert await live.fetch("select version, data is null from {s}.parked order by version") == [
            (2, False),
            (3, False),
            (4, True),
        ]
        await accounted_once(live, s.Orders)
        await live.publish(OrderPlaced("ann", 5), "o1", 1)
        await inspection.reaches(0, inspection.count_parked, live)
        await live.settled(s.Orders)

    assert await live.value("select history::text from orders") == '["placed", "n2", "n3", "n4"]'
    await accounted_once(live, s.Orders)


async def test_an_entry_that_turns_out_to_be_a_known_event_is_its_duplicate(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await without_version(live, OrderPlaced("ann", 5), **{"ce-id": "a"})
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await live.settled(s.Orders)
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await released(live)

    assert await inspection.duplicates(live) == [(seq, "a")]
    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    await accounted_once(live, s.Orders)


@pytest.mark.parametrize("which", ["identity", "version"])
async def test_an_entry_that_turns_out_to_contradict_another_event_stays_for_that_reason(
    live: ConsumerHarness, which: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await without_version(live, OrderPlaced("bob", 9), **{"ce-id": "a" if which == "identity" else "b"})
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await live.settled(s.Orders)
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await tried(live)

    assert await entries(live) == [(seq, "quarantined", f"{which}_reuse", 1)]
    assert await inspection.incidents(live) == [(f"{which}_reuse", seq)]
    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    await accounted_once(live, s.Orders)


async def test_a_discard_that_comes_before_the_batch_has_locked_the_entry_wins(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5))
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        connection = verbs._store.connection
        outer = connection.transaction()
        await outer.start()
        await connection.execute(f"select from {SCHEMA}.quarantine for update")
        async with live.running(s.Orders):
            await eventually(lambda: waits_for_a_row(live))
            with listening() as heard:
                await verbs.discard((1, seq), ME)
                await outer.commit()
                await heard.wait("due.settled")

    assert await entries(live) == [(seq, "discarded", "version", 0)]
    assert await live.rows("orders") == []
    await accounted_once(live, s.Orders)


async def test_an_edit_of_what_has_become_an_event_is_told_that_it_is_late(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5))
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        async with live.running(s.Orders):
            await released(live)
        with pytest.raises(TooLate, match="in quarantine no more") as told:
            await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "7"})
        assert "released" in str(told.value.remedy)


async def waits_for_a_row(live: ConsumerHarness) -> bool:
    return bool(
        await live.value(
            "select count(*) > 0 from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock' and query like '%quarantine%'"
        )
    )


async def test_two_processes_settle_each_entry_once(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for order in range(20):
        await live.publish(OrderPlaced("ann", 5), f"o{order}", 1)
    seqs = [await without_version(live, OrderPaid(5), f"o{order}") for order in range(20)]
    await live.settle(s.Orders)

    async with live.running(s.Orders, processes=2), live.quarantine(s.Orders) as verbs:
        for seq in seqs:
            await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "2"})
        await released(live, 20)

    assert await live.value('select count(*) from orders where history::text = \'["placed", "paid"]\'') == 20
    assert await inspection.count_intents(live) == 20
    assert await inspection.count_outcomes(live, "released") == 20
    await accounted_once(live, s.Orders)


LARGE = Policy(max_event_bytes=2_000)


async def too_large(live: ConsumerHarness) -> int:
    """An event in structured mode above the size limit: only its beginning is kept."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": "a",
        "source": "shop",
        "type": "order.noted",
        "aggregateid": "o1",
    }
    event |= {"aggregatetype": "order", "aggregateversion": "1", "data": {"text": "x" * 3_000}}
    return await live.publish_raw(
        msgspec.json.encode(event), {"content-type": "application/cloudevents+json"}, "o1"
    )


async def test_an_entry_of_which_only_the_beginning_was_kept_is_read_from_the_stream(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await too_large(live)
    await live.settle(s.Orders, policy=LARGE)
    assert await live.value("select octet_length(data) < size from {s}.quarantine")
    ask = api.message

    async def down(*_: Any) -> StoredMessage | None:
        raise BrokerError("no leader")

    monkeypatch.setattr(api, "message", down)
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.retry((1, seq), ME)
        with listening() as heard:
            await heard.wait("quarantine.read", 1)
        assert await entries(live) == [(seq, "quarantined", "body", 0)]
        monkeypatch.setattr(api, "message", ask)
        await released(live)

    assert await live.value("select length(history->>0) from orders") == 3_000


async def test_a_truncated_entry_whose_message_is_purged_stays_until_data_is_supplied(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await too_large(live)
    await live.settle(s.Orders, policy=LARGE)
    await live.nats.jetstream().delete_msg(live.stream.name, seq)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.retry((1, seq), ME)
        await tried(live)
        assert await entries(live) == [(seq, "quarantined", "body", 1)]
        assert "only their beginning" in await live.value("select detail from {s}.quarantine")
        head = {"content-type": None, "ce-type": "order.noted", "ce-id": "a", "ce-aggregatetype": "order"}
        head |= {"ce-aggregateid": "o1", "ce-aggregateversion": "1"}
        await verbs.edit((1, seq), ME, headers=head, data=b'{"text":"short"}')
        await released(live)

    assert await live.value("select history::text from orders") == '["short"]'


async def test_an_entry_of_an_earlier_stream_of_this_name_keeps_its_place_there(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"ce-id": "a"})
    await live.publish(OrderPlaced("bob", 5), "o2", 1, id="b")
    await live.settle(s.Orders)
    await live.fetch("update {s}.consumers set incarnation = 2, epoch = epoch + 1")

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await released(live)

    assert await live.fetch("select id, incarnation, seq from {s}.inbox where id = 'a'") == [("a", 1, seq)]


async def test_the_stream_may_come_again_whole_without_changing_anything(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    edited = await without_version(live, OrderPaid(5))
    dropped = await without_version(live, OrderPaid(5))
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await live.settled(s.Orders)
        await verbs.edit((1, edited), ME, headers={"ce-aggregateversion": "2"})
        await verbs.discard((1, dropped), ME)
        await released(live)
    before = await entries(live), await live.rows("orders"), await live.states(s.Orders)
    durable = await inspection.durable_name(live, "Orders")
    await live.nats.jetstream().delete_consumer(live.stream.name, durable)

    await live.settle(s.Orders)

    assert (await entries(live), await live.rows("orders"), await live.states(s.Orders)) == before
    await accounted_once(live, s.Orders)


async def test_without_order_quarantine_is_read_again_too(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    seq = await live.publish(OrderPlaced("ann", 5), "o1", 1, headers={"ce-schemaversion": "one"})
    await live.settle(s.Orders)
    assert await entries(live) == [(seq, "quarantined", "schema", 0)]

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-schemaversion": "1"})
        await released(live)

    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    await accounted_once(live, s.Orders)


async def test_a_corrected_event_that_fails_is_the_failed_head_of_its_aggregate(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderNoted("bad"), **{"ce-id": "a"})
    await live.settle(s.Orders)
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await released(live)

    assert await live.head(s.Orders, "order/o1") == (0, "waiting", 1)
    assert await live.states(s.Orders) == {"a": "parked"}
    await accounted_once(live, s.Orders)

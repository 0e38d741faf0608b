"""What an entry of quarantine turns out to be: an event, a duplicate, a contradiction, or nothing any more."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.quarantine import ME, accounted_once, entries, released, tried, without_version
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core.operator import NotThere, TooLate
from projectionist.core.settings.settings import Headers, Policy

pytestmark = pytest.mark.asyncio


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
    assert await inspection.rows(live, "decisions", "kind", "seq", "aggregate") == [("discard", seq, None)]
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


async def test_beyond_its_limit_quarantine_keeps_references_which_are_read_from_the_stream(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    policy = Policy(max_quarantined_payloads=2)
    seqs = [
        await live.publish(OrderPlaced("ann", n), f"o{n}", None, id=f"e{n}", headers={"x-version": "1"})
        for n in range(5)
    ]
    await live.publish(OrderPlaced("bob", 9), "other", 1)
    await live.settle(s.Orders, policy=policy)
    kept = await inspection.rows(live, "quarantine", "seq", "headers", "data", order="seq")
    assert [(seq, head is None, data is None) for seq, head, data in kept] == [
        *((seq, False, False) for seq in seqs[:2]),
        *((seq, True, True) for seq in seqs[2:]),
    ]
    read = msgspec.structs.replace(policy, headers=Headers(version="x-version"))
    async with live.running(s.Orders, policy=read), live.quarantine(s.Orders) as verbs:
        with pytest.raises(NotThere, match="only a reference"):
            await verbs.edit((1, seqs[3]), ME, headers={"ce-aggregateversion": "1"})
        await verbs.retry((1, seqs[3]), ME)
        await verbs.retry((1, seqs[0]), ME)
        await released(live, 2)
    assert await live.rows("orders where order_id in ('o0', 'o3')") == [
        ("o0", "placed", 0, '["placed"]'),
        ("o3", "placed", 3, '["placed"]'),
    ]
    await accounted_once(live, s.Orders)

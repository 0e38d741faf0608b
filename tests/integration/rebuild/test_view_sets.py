"""Builds of a set: of all its views or some of them, one reading and one swap; and of one that joins the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import new_class
from typing import Any

import msgspec
import pytest
from tests.integration.batch.test_view_sets import histories, tables
from tests.support import inspection
from tests.support.app_waiter import waiting
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import ACT, RebuildHarness, dying
from tests.support.servers import SCHEMA
from tests.support.view_sets import Cancelled, Paid, Placed, folded, view_set
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.projections import Projection, ViewSet, lookup, on, reference
from projectionist.runner import App
from projectionist.runner.admin.set_views import attach, detach
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.read_models.change_plan import ReadModelError
from projectionist.runner.rebuild import build_state, rebuild
from projectionist.runner.rebuild.compare import Differs
from projectionist.runner.rebuild.times import USUAL

pytestmark = pytest.mark.asyncio
ROWS = ("Summary", "Lines", "Spend")
EAGER = msgspec.structs.replace(USUAL, tries=RetryPolicy(initial_s=0.02, maximum_s=0.1))
"""Who swaps again and again beside readers that never pause."""


async def generations(live: ConsumerHarness) -> dict[str, int]:
    """The live generation of each view with rows."""
    found = await inspection.rows(live, "views", "name", "generation", "state", order="number")
    return {name: number for name, number, state in found if name in ROWS and state == "live"}


async def epoch(live: ConsumerHarness) -> int:
    """The number of the consumer's last takeover."""
    found: int = await inspection.value(live, "consumers", "epoch", name="Shop")
    return found


async def filled(live: ConsumerHarness, seed: int, *, orders: int = 40, **policy: Any) -> Any:
    """A set that has applied a history with poison in it, and that history."""
    shop, events = view_set(live.stream, **policy), list(histories(orders, random.Random(seed)))
    await live.migrate(shop.Shop)
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in events)
    await live.settle(shop.Shop)
    return shop, events


async def test_all_views_of_a_set_are_built_from_one_reading_and_swapped_at_once(
    rebuilds: RebuildHarness,
) -> None:
    """What waits behind a poison stays where it is, nothing is asked for again, and one epoch is for all."""
    live = rebuilds.harness
    shop, events = await filled(live, 11)
    before, effects, was = await tables(live), await rebuilds.effects(), await epoch(live)

    done = await rebuilds.rebuild(shop.Shop)

    assert [(one.view, one.generation, one.compared.differences) for one in done.views] == [
        (name, 2, []) for name in ROWS
    ]
    assert done.silent == {"Receipt": len(before.receipts) // 2}, (
        "of the view with rows; the Reactor is not built"
    )
    assert await tables(live) == before == folded(events)
    assert await rebuilds.effects() == effects
    assert (await generations(live), await epoch(live)) == (dict.fromkeys(ROWS, 2), was + 1)
    assert len(await rebuilds.positions()) == 1, "all that are kept stand in one place"


async def test_some_views_are_built_and_the_others_are_neither_read_nor_written(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    shop, _ = await filled(live, 12, orders=10)
    before = await tables(live)
    await live.pool.execute("update projectionist.summary__g1 set paid = -7")
    wrong = await live.rows("summary")

    done = await rebuilds.rebuild(shop.Shop, shop.Lines, shop.Spend)

    assert [(one.view, one.generation) for one in done.views] == [("Lines", 2), ("Spend", 2)]
    assert await generations(live) == {"Summary": 1, "Lines": 2, "Spend": 2}
    assert (await live.rows("summary"), await live.rows("spend")) == (wrong, before.spend)
    await live.publish(Placed("ann", (1, 2)), "late", 1)
    await live.settle(shop.Shop)
    assert ("late", 0, 1) in await live.rows("lines", "1, 2")


async def test_a_spilled_build_of_a_set_equals_live(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each view's rows are in other buckets, and an event is in each of them."""
    live = rebuilds.harness
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", 9)
    shop, events = await filled(live, 13)
    await rebuilds.rebuild(shop.Shop)
    assert await tables(live) == folded(events)


async def test_readers_that_join_two_views_either_way_round_see_both_of_one_build(
    rebuilds: RebuildHarness,
) -> None:
    """Each swap takes a mark off the rows of both; who reads them is never refused, and finds both or none."""
    live = rebuilds.harness
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    for number in range(5):
        await live.publish(Placed("ann", (1, 2)), f"o{number}", 1)
    await live.settle(shop.Shop)
    over, seen = asyncio.Event(), set[tuple[bool, bool]]()

    async def read(first: str, second: str) -> None:
        joined = f"select s.paid < 0, l.cents < 0 from {first} join {second} using (order_id)"
        while not over.is_set():
            seen.update(await live.fetch(joined))

    readers = [
        asyncio.create_task(read(*pair)) for pair in 2 * [("summary s", "lines l"), ("lines l", "summary s")]
    ]
    try:
        for generation in range(1, 3):
            async with live.pool.acquire() as connection, connection.transaction():
                await connection.execute(f"update projectionist.summary__g{generation} set paid = -1")
                await connection.execute(f"update projectionist.lines__g{generation} set cents = -1")
            await rebuilds.rebuild(shop.Shop, times=EAGER, accept_differences=True)
    finally:
        over.set()
        await asyncio.gather(*readers)
    seen.update(
        await live.fetch("select s.paid < 0, l.cents < 0 from summary s join lines l using (order_id)")
    )
    assert seen == {(False, False), (True, True)}


async def keep_off(*given: Any) -> bool:
    """Let a swap go, as where readers hold one view and want another."""
    return False


async def test_a_swap_that_readers_keep_off_ends_with_what_to_do_and_goes_on_from_there(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = rebuilds.harness
    shop, events = await filled(live, 19, orders=4)
    with monkeypatch.context() as kept_off:
        kept_off.setattr(rebuild, "MOST_TRIES", 2)
        kept_off.setattr(rebuild, "swap", keep_off)
        with pytest.raises(RebuildError, match=r"could not be swapped in 2 tries.* name them in one order"):
            await rebuilds.rebuild(shop.Shop, times=EAGER)
    assert await generations(live) == dict.fromkeys(ROWS, 1)

    assert (await rebuilds.rebuild(shop.Shop)).resumed
    assert (await generations(live), await tables(live)) == (dict.fromkeys(ROWS, 2), folded(events))


async def test_rows_that_differ_in_one_view_stop_the_swap_of_all(rebuilds: RebuildHarness) -> None:
    live = rebuilds.harness
    shop, _ = await filled(live, 14, orders=8)
    right = await live.rows("spend")
    await live.pool.execute(
        "update projectionist.spend__g1 set cents = cents + 1 where customer = 'customer 1'"
    )

    with pytest.raises(Differs) as told:
        await rebuilds.rebuild(shop.Shop)

    assert [one.key for one in told.value.compared.differences] == ["customer 1"]
    assert await generations(live) == dict.fromkeys(ROWS, 1)
    done = await rebuilds.rebuild(shop.Shop, accept_differences=True)
    assert (done.resumed, [len(one.compared.differences) for one in done.views]) == (True, [0, 0, 1])
    assert await live.rows("spend") == right


async def test_one_build_a_set_and_what_was_left_is_gone_on_with_given_up_or_named(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    shop, _ = await filled(live, 15, orders=8)
    before = await tables(live)
    with dying("rebuild.flushed"):
        await rebuilds.rebuild(shop.Shop, shop.Lines, shop.Spend)

    with pytest.raises(RebuildError, match=r"a build of Spend is open, which .* has left"):
        await rebuilds.rebuild(shop.Shop, shop.Lines)
    assert (await rebuilds.rebuild(shop.Shop, shop.Lines, shop.Spend)).resumed
    with dying("rebuild.round"):
        await rebuilds.rebuild(shop.Shop, shop.Summary)
    assert await rebuilds.give_up(shop.Shop) == [2]
    with dying("rebuild.round"):
        await rebuilds.rebuild(shop.Shop, shop.Summary)
    done = await rebuilds.rebuild(shop.Shop)
    assert (done.resumed, [one.generation for one in done.views]) == (False, [4, 3, 3]), "anew for all"
    assert await tables(live) == before
    assert await rebuilds.tables() == [
        *("lines__g1", "lines__g2", "lines__g3", "spend__g1", "spend__g2", "spend__g3"),
        *("summary__g1", "summary__g4"),
    ]


async def test_each_view_goes_back_by_itself_and_others_that_are_kept_can_follow(
    rebuilds: RebuildHarness,
) -> None:
    """They were left at one place: the first that is caught up takes its own along."""
    live = rebuilds.harness
    shop, _ = await filled(live, 16, orders=8)
    await rebuilds.rebuild(shop.Shop)
    for number in range(4):
        await live.publish(Placed("late", (number,)), f"x{number}", 1)
    await live.settle(shop.Shop)
    before = await tables(live)

    with dying("rebuild.marked"):
        await rebuilds.rebuild(shop.Shop, shop.Lines, back_to=1)
    await live.publish(Placed("later", (5,)), "y", 1)
    await live.settle(shop.Shop)
    assert (await rebuilds.rebuild(shop.Shop, shop.Lines, back_to=1)).resumed
    assert await generations(live) == {"Summary": 2, "Lines": 1, "Spend": 2}
    assert await live.rows("lines", "1, 2") == sorted([*before.lines, ("y", 0, 5)])

    await rebuilds.rebuild(shop.Shop, shop.Spend, back_to=1)
    assert await live.rows("spend") == sorted([*before.spend, ("later", 1, 5)])
    with pytest.raises(RebuildError, match="Name the view that goes back"):
        await rebuilds.rebuild(shop.Shop, back_to=1)


async def test_a_view_joins_with_all_that_was_applied_and_its_history_makes_no_effect(
    rebuilds: RebuildHarness,
) -> None:
    """A view with rows and a Reactor, beside a set that has run; a poison of before waits, and drains through all."""
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0, 1]), view_set(live.stream, effects="now")
    await live.migrate(few.Shop)
    for name, customer in (("o1", "ann"), ("o2", "bob")):
        await live.publish(Placed(customer, (5, 6)), name, 1)
        await live.publish(Paid(2), name, 2)
    await live.publish(Placed("ann", (-1,)), "o1", 3, id="poison")
    await live.settle(few.Shop)
    asked = (await tables_of(live)).receipts
    await live.migrate(shop.Shop)
    was = await epoch(live)

    done = await rebuilds.rebuild(shop.Shop, shop.Spend, shop.Receipts)

    assert [(one.view, one.generation, one.compared.rows) for one in done.views] == [
        ("Spend", 1, 2),
        ("Receipts", 1, 0),
    ]
    assert (await epoch(live), await generations(live)) == (was + 1, dict.fromkeys(ROWS, 1))
    assert await live.rows("spend") == [("ann", 1, 11), ("bob", 1, 11)]
    assert (await tables_of(live)).receipts == asked
    assert done.silent == {"Receipt": 2}
    await live.publish(Paid(9), "o2", 3)
    await live.publish(Placed("ann", (1,)), "o3", 1)
    await live.settle(shop.Shop)
    assert await live.rows("spend") == [("ann", 2, 12), ("bob", 1, 11)]
    assert sorted(set((await tables_of(live)).receipts) - set(asked)) == [("o2", 9)]
    assert len((await tables_of(live)).receipts) == len(asked) + 2, (
        "of the view that was there, and of the new one"
    )


async def tables_of(live: ConsumerHarness) -> Any:
    """What the tables hold, where a view may not be there yet."""
    return await tables(live) if await live.value("select to_regclass('spend')") else await _without(live)


async def _without(live: ConsumerHarness) -> Any:
    await live.pool.execute(
        "create view spend as select ''::text as customer, 0 as orders, 0 as cents where false"
    )
    try:
        return await tables(live)
    finally:
        await live.pool.execute("drop view spend")


async def test_a_set_is_built_and_a_view_joins_it_at_once_under_load_with_two_runners(
    rebuilds: RebuildHarness,
) -> None:
    """Repeats and disorder while it is read, caught up and swapped; then the new code takes over from the old."""
    live = rebuilds.harness
    few, shop, chance = view_set(live.stream, order=[0, 1, 3]), view_set(live.stream), random.Random(17)
    events = list(histories(120, chance))
    sent = [*events, *chance.sample(events, len(events) // 5)]
    chance.shuffle(sent)
    third = len(sent) // 3
    await live.migrate(few.Shop)

    async def publish(some: list[Any]) -> None:
        await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in some)

    await publish(sent[:third])

    async def superseded() -> None:
        async with live.running(few.Shop, processes=2, limits=Limits(max_rows=20)):
            # The first event that is applied makes the plan for a view that joins another one.
            await eventually(lambda: inspection.count_inbox(live))
            await live.migrate(shop.Shop)
            async with rebuilds.reading(shop.Shop) as building:
                await publish(sent[third : 2 * third])
            load = asyncio.create_task(publish(sent[2 * third : -third // 2]))
            assert {one.view for one in (await building).views} == set(ROWS)
            await load
            await publish(sent[-third // 2 :])  # whoever reads it meets the view
            await live.settled(few.Shop)

    with pytest.raises(
        Superseded, match=r"feeds the view 'Spend', which this code lacks|newer code has taken"
    ):
        await superseded()
    await live.settle(shop.Shop, processes=2, limits=Limits(max_rows=20))

    assert await tables(live) == folded(events)
    assert await live.unaccounted(shop.Shop) == []


async def test_history_that_a_new_view_cannot_digest_is_told_and_the_set_is_untouched(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0]), view_set(live.stream, order=[0, 1])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (-1,)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    rows = await live.rows("summary")

    with pytest.raises(HandlersFailed) as told:
        await rebuilds.rebuild(shop.Shop, shop.Lines)

    assert [(one.aggregate, one.version) for one in told.value.stumbles] == [("order/o1", 1)]
    assert await live.rows("summary") == rows
    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(driver.read(Cancelled(), "o1", 2))
    assert await live.rows("summary") == [("o1", "ann", 0, 0)]
    assert await rebuilds.give_up(shop.Shop) == [1]
    assert await live.value("select to_regclass('lines')") is None
    assert await rebuilds.tables() == ["summary__g1"]


async def test_a_view_joins_beside_the_batches_and_a_reader_sees_one_version(
    rebuilds: RebuildHarness,
) -> None:
    """While it is built the others apply events; behind the swap one wait answers for the new view as well."""
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0]), view_set(live.stream, order=[0, 1])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (1, 2)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    app = waiting(App(projections=[shop.Shop], settings=live.settings), live.settings)
    joined = "select s.lines, count(l) from summary s left join lines l using (order_id) group by s.lines"
    async with AsyncExitStack() as held:
        building = await held.enter_async_context(rebuilds.reading(shop.Shop, shop.Lines))
        async with live.running(shop.Shop):
            await live.publish(Paid(2), "o1", 2)
            assert (await app.wait_for(shop.Shop, "order/o1", 2, timeout_s=HANG_S)).is_applied
            assert await generations(live) == {"Summary": 1}
            await held.aclose()
            await building
            await live.publish(Cancelled(), "o1", 3)
            assert (await app.wait_for(shop.Shop, "order/o1", 3, timeout_s=HANG_S)).is_applied
            assert await live.fetch(joined) == [(0, 0)]


async def test_a_view_that_history_breaks_stops_no_other_when_run_builds_it(
    rebuilds: RebuildHarness, caplog: pytest.LogCaptureFixture
) -> None:
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0]), view_set(live.stream, order=[0, 1])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (-1,)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    with listening() as heard:
        async with live.running(shop.Shop):
            await heard.wait("join.failed")
            await live.publish(Paid(2), "o1", 2)
            await live.settled(shop.Shop)
    assert await live.rows("summary") == [("o1", "ann", 1, 2)]
    assert "Shop.Lines does not join yet, and is tried again" in caplog.text


async def test_a_view_that_history_breaks_keeps_none_back_that_joins_with_it(
    rebuilds: RebuildHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """They are built from one reading, and each by itself where that fails."""
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0]), view_set(live.stream, order=[0, 1, 2])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (-1,)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    with listening() as heard:
        async with live.running(shop.Shop):
            await heard.wait("join.waits")
    assert await generations(live) == {"Summary": 1, "Spend": 2}
    assert await live.rows("spend") == [("ann", 1, -1)]
    assert "Shop.Lines does not join yet" in caplog.text
    assert "Shop.Spend does not join yet" not in caplog.text


async def test_a_raised_revision_waits_for_no_build_of_a_view_that_joins_and_was_left(
    rebuilds: RebuildHarness,
) -> None:
    """The set goes on without the one, and cannot without the other; what was left is begun anew."""
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0, 1]), view_set(live.stream, order=[0, 1, 2])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (1, 2)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(shop.Shop)
    with dying("rebuild.flushed"):
        await rebuilds.rebuild(shop.Shop, shop.Spend)
    raised = view_set(live.stream, order=[0, 1, 2], lines_revision=2)
    await live.migrate(raised.Shop)

    async with live.running(raised.Shop):
        await inspection.reaches("live", inspection.value, live, "views", "state", name="Spend")

    assert await generations(live) == {"Summary": 1, "Lines": 2, "Spend": 2}
    assert (await live.rows("lines", "1, 2"), await live.rows("spend")) == (
        [("o1", 0, 1), ("o1", 1, 2)],
        [("ann", 1, 3)],
    )


@dataclass(frozen=True)
class Rate:
    """A row of a table that is not there."""

    country: str
    cents: int


async def test_a_view_that_joins_and_cannot_look_up_its_table_stops_no_other(
    rebuilds: RebuildHarness, caplog: pytest.LogCaptureFixture
) -> None:
    live = rebuilds.harness
    few = view_set(live.stream, order=[0])

    class Taxed(Projection, table="taxed", key="order_id"):
        order_id: str
        cents: int = 0
        rates = lookup(reference("public.no_such_rates", Rate, key="country"), by="customer")

        @on(Placed)
        def placed(self, event: Placed, *, rates: Mapping[str, Rate]) -> None:
            self.cents = rates[event.customer].cents

    keywords = {"stream": live.stream.name, "subjects": live.stream.subject("order", "{aggregate}")}
    more = new_class("Shop", (ViewSet,), {**keywords, "effects": "beginning", "views": [few.Summary, Taxed]})
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (1,)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(more)
    with listening() as heard:
        async with live.running(more):
            await live.publish(Paid(2), "o1", 2)
            await live.settled(more)
            await heard.wait("join.failed")
    assert await live.rows("summary") == [("o1", "ann", 1, 2)]
    assert "Taxed does not join yet" in caplog.text
    assert "cannot look up public.no_such_rates" in caplog.text


async def test_a_view_that_joins_by_going_back_takes_no_older_event_for_news(
    rebuilds: RebuildHarness,
) -> None:
    """Where it goes back to a kept generation and nothing is caught up, its mark stays behind what the stream holds."""
    live = rebuilds.harness
    shop = view_set(live.stream, effects="now")
    await live.migrate(shop.Shop)
    for number in range(3):
        await live.publish(Placed("ann", (number,)), f"o{number}", 1)
    await live.settle(shop.Shop)
    await rebuilds.rebuild(shop.Shop, shop.Summary)
    async with live.connected() as connection:
        for act in (detach, attach):
            await act(connection, SCHEMA, "Summary", ACT)

    done = await rebuilds.rebuild(shop.Shop, shop.Summary, back_to=1)

    assert (done.caught_up, await generations(live)) == (0, {"Summary": 1, "Lines": 1, "Spend": 1})
    last_seq = (await live.nats.jetstream().stream_info(live.stream.name)).state.last_seq
    assert await inspection.value(live, "views", "effects_mark", name="Summary") == last_seq + 1
    await live.publish(Paid(4), "o1", 2)
    await live.settle(shop.Shop)
    assert (await tables(live)).receipts == [("o1", 4), ("o1", 4)]


async def test_the_revision_of_one_view_is_raised_and_run_builds_that_view_alone(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    shop, events = await filled(live, 18, orders=8)
    raised = view_set(live.stream, lines_revision=2)
    await live.migrate(raised.Shop)
    async with live.running(raised.Shop):
        await inspection.reaches(2, inspection.value, live, "views", "generation", name="Lines")
    assert await generations(live) == {"Summary": 1, "Lines": 2, "Spend": 1}
    assert await tables(live) == folded(events)
    with pytest.raises(Superseded, match="runs revision 2"):
        await live.settle(shop.Shop)


async def test_a_late_view_that_asks_for_effects_of_all_events_is_refused(rebuilds: RebuildHarness) -> None:
    live = rebuilds.harness
    few, shop = view_set(live.stream, order=[0]), view_set(live.stream, order=[0, 3])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (1,)), "o1", 1)
    await live.settle(few.Shop)
    with pytest.raises(ReadModelError, match=r'Shop.Receipts asks for intents.*Say effects="now" in Shop'):
        await live.migrate(shop.Shop)

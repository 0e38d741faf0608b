"""A view leaves its set without a deploy, and joins it again; one that no class lists keeps its rows until dropped."""

from __future__ import annotations

from pathlib import Path
from types import new_class
from typing import Any

import pytest
from tests.integration.batch.test_view_sets import tables
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import ACT, RebuildHarness, dying
from tests.support.servers import SCHEMA
from tests.support.set_lookups import looking_set
from tests.support.shop_app import SET_APP, environment
from tests.support.view_sets import Paid, Placed, folded, view_set

from projectionist.projections import Projection, ViewSet, on
from projectionist.runner.admin.set_views import CannotDetach, attach, detach
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.read_models.change_plan import ReadModelError
from projectionist.runner.rebuild import build_state

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "ticket 7")


async def test_a_view_that_fails_leaves_and_the_others_go_on_without_a_restart(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    """What waited for it is applied in the others; when it is attached a build brings it along, mended or not."""
    live = rebuilds.harness
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    cli = Cli(live, tmp_path, **environment(live))
    async with live.running(shop.Shop):
        await live.publish(Placed("ann", (5,)), "o1", 1)
        await live.publish(Placed("bob", (-1,)), "o2", 1)
        await live.publish(Placed("cid", (7,)), "o3", 1)
        await inspection.reaches("waiting", inspection.head_state, live, "order/o2")

        told = await cli.done("views", "detach", "Shop.Lines", *WHY)
        assert "Shop.Lines: is detached, and its rows stay as they are" in told
        await live.publish(Paid(2), "o1", 2)
        await inspection.reaches("clear", inspection.head_state, live, "order/o2")
        await live.settled(shop.Shop)
        assert await live.rows("summary") == [("o1", "ann", 1, 2), ("o2", "bob", 1, 0), ("o3", "cid", 1, 0)]
        assert await live.rows("lines", "1, 2") == [("o1", 0, 5), ("o3", 0, 7)], "as they were"
        assert await cli.seen("views", "detach", "Lines", *WHY) == {
            "consumer": "Shop",
            "view": "Lines",
            "state": "detached",
            "changed": False,
            "scheduled": 0,
        }

    status = await cli.run("status")
    assert "Shop.Lines: is left out by batches: its rows stay as they are" in status.out
    verified = await cli.run("verify", SET_APP, "Shop")
    assert (verified.code, "Shop.Lines: is detached, and is not verified" in verified.err) == (0, True)
    previewed = await cli.done("preview", SET_APP, "Shop")
    assert "Lines: it is detached: batches leave it out" in previewed
    refused = await cli.run("rebuild", SET_APP, "Shop.Lines")
    assert (refused.code, "is detached: batches leave it out" in refused.err) == (1, True), refused.err
    plan = await cli.run("rebuild", SET_APP, "Shop.Lines", "--plan")
    assert (plan.code, "is detached: batches leave it out" in plan.err) == (1, True), (
        "a plan says what a run would"
    )
    (planned,) = (await cli.seen("rebuild", SET_APP, "Shop", "--plan"))["plans"]
    assert [one["view"] for one in planned["views"]] == ["Summary", "Spend"]


async def test_a_view_that_was_attached_joins_with_all_that_was_applied_without_it(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    live = rebuilds.harness
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    cli = Cli(live, tmp_path, **environment(live))
    events = [("o1", 1, Placed("ann", (5,))), ("o2", 1, Placed("bob", (6, 7))), ("o2", 2, Paid(4))]
    await live.publish(events[0][2], "o1", 1)
    await live.settle(shop.Shop)
    for name in ("Shop.Lines", "Receipts"):
        await cli.done("views", "detach", name, *WHY)
    await live.publish(events[1][2], "o2", 1)
    await live.publish(events[2][2], "o2", 2)
    await live.settle(shop.Shop)
    for name in ("Shop.Lines", "Receipts"):
        assert "joins as soon as it is built" in await cli.done("views", "attach", name, *WHY)
    previewed = await cli.done("preview", SET_APP, "Shop.Lines")
    assert "Lines: not there yet; it would make 3 rows of 3 messages" in previewed

    (planned,) = (await cli.seen("rebuild", SET_APP, "Lines", "Receipts", "--plan"))["plans"]
    assert planned["views"] == [
        {"view": "Lines", "generation": 2, "joins": True},
        {"view": "Receipts", "generation": 2, "joins": True},
    ]
    (done,) = (await cli.seen("rebuild", SET_APP, "Lines", "Receipts"))["rebuilt"]

    assert [(one["view"], one["generation"], one["compared"]["differences"]) for one in done["views"]] == [
        ("Lines", 2, []),
        ("Receipts", 2, []),
    ]
    found, expected = await tables(live), folded(events)
    assert (found.summary, found.lines, found.spend) == (expected.summary, expected.lines, expected.spend)
    assert found.receipts == [("o2", 4)], "of the view that was there; what the other missed is history"
    await live.publish(Paid(3), "o1", 2)
    await live.settle(shop.Shop)
    assert (await tables(live)).receipts == [("o1", 3), ("o1", 3), ("o2", 4)]
    kept = await inspection.rows(
        live, "generations", "generation", "state", "build", order="view, generation"
    )
    assert [(state, build) for number, state, build in kept if state == "kept"] == [("kept", None)] * 2, (
        "nothing could bring what they were left with to where the others are"
    )


async def test_what_cannot_leave_or_come_back_is_refused_and_nothing_is_changed(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    live = rebuilds.harness
    shop = view_set(live.stream, order=[0, 1])
    await live.migrate(shop.Shop)
    await live.publish(Placed("ann", (5,)), "o1", 1)
    await live.settle(shop.Shop)
    cli = Cli(live, tmp_path, **environment(live))

    async def refused(*words: str) -> str:
        before = await inspection.count(live, "audit")
        ended = await cli.run("views", *words, *WHY)
        assert (ended.code, await inspection.count(live, "audit")) == (1, before), ended.err
        return ended.err

    assert "no set has a view 'Orders'" in await refused("detach", "Orders")
    assert "no set has a view 'Shop'" in await refused("attach", "Shop")
    with dying("rebuild.flushed"):
        await rebuilds.rebuild(shop.Shop, shop.Lines)
    assert "a build of Shop.Lines is open" in await refused("detach", "Lines")
    await cli.done("views", "detach", "Summary", *WHY)
    await rebuilds.give_up(shop.Shop)
    assert "the only view of its set that batches write" in await refused("detach", "Lines")
    assert "is live already" in await cli.done("views", "attach", "Lines", *WHY)


async def test_a_view_that_others_look_up_leaves_after_them(live: ConsumerHarness) -> None:
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    await live.settle(shop.Shop)

    async with live.pool.acquire() as connection:
        with pytest.raises(CannotDetach, match=r"looked up by Shop\.Letters, Shop\.Lines") as refused:
            await detach(connection, SCHEMA, "Shop.Summary", ACT)
        assert "projectionist views detach Shop.Letters" in str(refused.value)
        await live.value("update {s}.views set code = '\\x00', looks_up = '{{}}' returning 1")
        await live.settle(shop.Shop)  # what the code looks up is on record again when it is taken up
        with pytest.raises(CannotDetach, match="looked up by"):
            await detach(connection, SCHEMA, "Shop.Summary", ACT)
        for left in ("Letters", "Lines", "Summary"):
            assert (await detach(connection, SCHEMA, f"Shop.{left}", ACT)).changed


async def test_a_view_is_not_retired_while_a_build_would_bring_it_back(rebuilds: RebuildHarness) -> None:
    """`migrate` refuses; behind the build, or without it, the view goes and the others go on."""
    live = rebuilds.harness
    more, fewer = view_set(live.stream, order=[0, 1, 2]), view_set(live.stream, order=[0, 2])
    await live.migrate(more.Shop)
    await live.publish(Placed("ann", (5,)), "o1", 1)
    await live.settle(more.Shop)
    with dying("rebuild.flushed"):
        await rebuilds.rebuild(more.Shop, more.Lines)

    with pytest.raises(
        ReadModelError, match=r"a build of Shop\.Lines is open, whose swap would bring it back"
    ):
        await live.migrate(fewer.Shop)

    await rebuilds.rebuild(more.Shop, more.Lines)
    with dying("rebuild.flushed"):
        await rebuilds.rebuild(more.Shop, more.Spend)
    await live.migrate(fewer.Shop)
    await live.publish(Paid(2), "o1", 2)
    await live.settle(fewer.Shop)
    assert await live.rows("summary") == [("o1", "ann", 1, 2)]
    assert await inspection.value(live, "views", "state", name="Lines") == "retired"


async def test_a_view_that_leaves_while_a_build_of_it_begins_is_not_brought_back(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, begin = rebuilds.harness, build_state.begin
    shop = view_set(live.stream, order=[0, 1])
    await live.migrate(shop.Shop)
    await live.publish(Placed("ann", (5,)), "o1", 1)
    await live.settle(shop.Shop)

    async def begin_late(*given: Any, **options: Any) -> Any:
        async with live.connected() as connection:
            await detach(connection, SCHEMA, "Lines", ACT)
        return await begin(*given, **options)

    monkeypatch.setattr(build_state, "begin", begin_late)
    with pytest.raises(RebuildError, match="Lines was detached at this moment"):
        await rebuilds.rebuild(shop.Shop, shop.Lines)
    assert await inspection.value(live, "views", "state", name="Lines") == "detached"
    assert await inspection.count(live, "builds") == 0


def counting(live: ConsumerHarness, name: str, *formerly: str) -> tuple[type, type]:
    """A set with a view of this name, and the view."""

    class Counting(Projection, table="counted", key="order_id", name=name, formerly=formerly):
        order_id: str
        events: int = 0

        @on(Placed)
        def placed(self, event: Placed) -> None:
            self.events += 1

    keywords = {
        "stream": live.stream.name,
        "subjects": live.stream.subject("order", "{aggregate}"),
        "effects": "beginning",
        "views": [view_set(live.stream, order=[0]).Summary, Counting],
    }
    return new_class("Shop", (ViewSet,), keywords), Counting


async def test_a_view_that_has_left_follows_the_name_of_its_class(rebuilds: RebuildHarness) -> None:
    live = rebuilds.harness
    before, _ = counting(live, "Old")
    after, renamed = counting(live, "New", "Old")
    await live.migrate(before)
    await live.publish(Placed("ann", (5,)), "o1", 1)
    await live.settle(before)
    async with live.connected() as connection:
        await detach(connection, SCHEMA, "Old", ACT)

    await live.migrate(after)

    await live.publish(Placed("ann", (6,)), "o1", 2)
    await live.settle(after)
    assert await inspection.rows(live, "views", "name", "state", order="number") == [
        ("Summary", "live"),
        ("New", "detached"),
    ]
    async with live.connected() as connection:
        await attach(connection, SCHEMA, "New", ACT)
    await rebuilds.rebuild(after, renamed)
    assert await live.rows("counted") == [("o1", 2)]


async def test_a_reset_leaves_no_generation_of_a_view_that_has_left_to_go_back_to(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    """It holds events that come again: what the view showed last stays, and what stands further than the set goes."""
    live = rebuilds.harness
    shop = view_set(live.stream, order=[0, 1])
    await live.migrate(shop.Shop)
    events = [("o1", 1, Placed("ann", (5,))), ("o1", 2, Paid(2)), ("o1", 3, Paid(4))]
    for name, version, event in events:
        await live.publish(event, name, version)
    await live.settle(shop.Shop)
    await rebuilds.rebuild(shop.Shop, shop.Summary)
    cli = Cli(live, tmp_path, **environment(live))
    await cli.done("views", "detach", "Summary", *WHY)
    await live.pool.execute("update projectionist.runners set stopped = now()")

    await cli.done("reset", "Shop", "--yes", "--scheduled", "discard", *WHY)

    assert await live.rows("summary") == [("o1", "ann", 1, 6)], "as it was left"
    kept = await inspection.rows(live, "generations", "generation", "state", order="view, generation")
    assert kept == [(1, "dropped"), (2, "live"), (1, "live")]
    await cli.done("views", "attach", "Summary", *WHY)
    with pytest.raises(RebuildError, match="generation 1 of Summary is not kept"):
        await rebuilds.rebuild(shop.Shop, shop.Summary, back_to=1)
    await live.settle(shop.Shop)
    await live.settled(shop.Shop)
    assert await live.rows("summary") == [("o1", "ann", 1, 6)]


async def test_the_last_rows_of_a_view_that_no_class_lists_are_kept_until_dropped(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    live = rebuilds.harness
    more, fewer = (
        view_set(live.stream, order=[0, 2], name="Small"),
        view_set(live.stream, order=[0], name="Small"),
    )
    await live.migrate(more.Shop)
    await live.publish(Placed("ann", (5,)), "o1", 1)
    await live.settle(more.Shop)
    await live.migrate(fewer.Shop)
    cli = Cli(live, tmp_path, **environment(live))

    (kept,) = (await cli.seen("generations", "list", SET_APP, "Small.Spend"))["generations"]
    assert (kept["state"], kept["kept_until"], kept["can_roll_back"]) == ("kept", None, False)
    assert await live.rows("spend") == [("ann", 1, 5)]
    await cli.done("generations", "drop", SET_APP, "Small.Spend", "1", *WHY)

    assert await live.value("select to_regclass('spend')") is None
    assert await rebuilds.tables() == ["summary__g1"]
    await live.publish(Placed("ann", (6,)), "o2", 1)
    await live.migrate(more.Shop)
    await live.settle(more.Shop)
    await rebuilds.rebuild(more.Shop, more.Spend)
    await live.settle(more.Shop)
    assert await live.rows("spend") == [("ann", 2, 11)], "listed again it is built anew"


async def test_a_set_is_retired_with_a_view_that_has_not_joined_and_one_that_has_left(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    live = rebuilds.harness
    few = view_set(live.stream, order=[0, 1])
    await live.migrate(few.Shop)
    await live.publish(Placed("ann", (5,)), "o1", 1)
    await live.settle(few.Shop)
    await live.migrate(view_set(live.stream, order=[0]).Shop)
    cli = Cli(live, tmp_path, **environment(live))
    await cli.done("generations", "drop", SET_APP, "Shop.Lines", "1", *WHY)
    await live.migrate(view_set(live.stream, order=[0, 2]).Shop)
    assert sorted(await inspection.rows(live, "views", "name", "state")) == [
        *(("Lines", "retired"), ("Spend", "joining"), ("Summary", "live")),
    ]
    live.tampered = True  # the set is no more

    await live.pool.execute("update projectionist.runners set stopped = now()")
    await cli.done("retire", "Shop", *WHY, "--yes")

    assert await rebuilds.tables() == []
    assert await inspection.count(live, "consumers") == 0

"""Commands about a set of views, and about one view of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop_app import SET_APP, environment
from tests.support.view_sets import Paid, Placed, view_set

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "ticket 7")


@pytest_asyncio.fixture
async def cli(live: ConsumerHarness, tmp_path: Path) -> Cli:
    """Orders of two customers; one of them waits, since a view fails on an event of it."""
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    for name, customer in (("o1", "ann"), ("o2", "bob"), ("o3", "ann")):
        await live.publish(Placed(customer, (5, 6)), name, 1, id=f"{name}:1")
        await live.publish(Paid(2), name, 2, id=f"{name}:2")
    await live.publish(Placed("ann", (7, -1)), "o2", 3, id="o2:3")
    await live.settle(shop.Shop)
    return Cli(live, tmp_path, **environment(live))


async def test_drift_in_one_view_is_told_of_it_alone_and_mended_by_either_name(
    live: ConsumerHarness, cli: Cli
) -> None:
    async def told(*words: str) -> dict[str, tuple[int, int]]:
        found = (await cli.seen("verify", SET_APP, *words, "--all"))["verified"]
        return {one["consumer"]: (one["rows"], one["drifted"]) for one in found}

    right = {"Summary": (3, 0), "Lines": (6, 0), "Spend": (2, 0)}
    await live.pool.execute("update projectionist.lines__g1 set cents = 9 where order_id = 'o1' and line = 1")
    await live.pool.execute("update projectionist.spend__g1 set cents = 1 where customer = 'bob'")
    assert await told("Shop") == right | {"Lines": (6, 1), "Spend": (2, 1)}
    assert await told("Shop.Lines") == {"Lines": (6, 1)}

    await cli.done("recompute", SET_APP, "Shop.Lines", '["o1", 1]', *WHY)
    await cli.done("recompute", SET_APP, "Spend", "bob", *WHY)
    assert await told("Shop") == right


async def test_a_journey_tells_of_a_set_once_with_the_rows_of_all_views_and_why_it_waits(cli: Cli) -> None:
    """The verdict is one, and so are its parked event, its intents and what was done by hand."""
    [[placed], [paid], [parked]] = [
        (await cli.seen("journey", event, "--app", SET_APP))["events"] for event in ("o1:1", "o1:2", "o2:3")
    ]
    [passage] = placed["consumers"]
    assert (passage["consumer"], passage["state"], passage["row_note"]) == ("Shop", "applied", "")
    assert passage["rows"] == ["public.summary o1", 'public.lines ["o1",0], ["o1",1]', "public.spend ann"]
    [passage] = paid["consumers"]
    assert passage["rows"] == ["public.summary o1"]
    assert [one["slot"] for one in passage["intents"]] == ["Receipt", "Receipt"]
    [passage] = parked["consumers"]
    assert passage["state"] == "parked"
    assert passage["parked"]["error_class"] == "ValueError"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("recompute", SET_APP, "Shop", "o1", *WHY), "is a set of views. Name one of them: Shop.Summary"),
        (("verify", SET_APP, "Receipts"), "Receipts is a Reactor"),
        (("pause", "Shop.Lines", *WHY), "there is no consumer 'Shop.Lines'"),
        (
            ("replay", SET_APP, "Shop.Lines", "--from", "1", "--to", "2", *WHY),
            "which goes as a whole. Name Shop",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
async def test_what_a_set_or_a_view_of_it_cannot_do_is_refused(
    live: ConsumerHarness, cli: Cli, words: tuple[str, ...], why: str
) -> None:
    before = await inspection.count(live, "audit")
    ended = await cli.run(*words)
    assert (ended.code in (1, 2), why in ended.err) == (True, True), ended.err
    assert await inspection.count(live, "audit") == before


async def test_an_aggregate_is_erased_from_all_views_as_a_rebuild_would_make_them(
    live: ConsumerHarness, cli: Cli
) -> None:
    """Rows of its own go, and those that others share are folded anew."""
    await sent(live)
    (planned,) = (await cli.seen("erase", SET_APP, "--aggregate", "order/o1", "--plan"))["consumers"]
    assert planned["rows"] == "Summary: 1 row goes; Lines: its own rows go; Spend: 1 rows are folded anew"

    done = await cli.seen("erase", SET_APP, "--aggregate", "order/o1", *WHY)

    assert done["undone"] == []
    assert await live.rows("summary") == [("o2", "bob", 2, 2), ("o3", "ann", 2, 2)]
    assert await live.rows("lines", "1, 2") == [(name, at, at + 5) for name in ("o2", "o3") for at in (0, 1)]
    assert await live.rows("spend") == [("ann", 1, 11), ("bob", 1, 11)]
    (rebuilt,) = (await cli.seen("rebuild", SET_APP, "Shop"))["rebuilt"]
    assert [one["compared"]["differences"] for one in rebuilt["views"]] == [[], [], []]


async def test_an_event_is_erased_from_all_views_and_what_is_left_out_is_told(
    live: ConsumerHarness, cli: Cli
) -> None:
    await sent(live)
    await cli.done("views", "detach", "Shop.Lines", *WHY)
    done = await cli.seen("erase", SET_APP, "--event", "o3:1", *WHY)
    assert await live.rows("spend") == [("ann", 1, 11), ("bob", 1, 11)]
    assert [row[:3] for row in await live.rows("summary")] == [
        ("o1", "ann", 2),
        ("o2", "bob", 2),
        ("o3", "", 0),
    ]
    [undone] = done["undone"]
    assert undone.startswith(
        "rows of Lines: no batch writes them while it is detached; `projectionist rebuild"
    )


async def sent(live: ConsumerHarness) -> None:
    """Every intent has been sent."""
    await inspection.count(live, "intents")  # unpacks what is staged
    await live.pool.execute("update projectionist.intents set state = 'sent'")
    await live.pool.execute("delete from projectionist.outbox")

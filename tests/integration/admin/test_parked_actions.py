"""What an operator may do, cell by cell of the table of heads, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, batch_drivers, stalled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act, NotThere, TooLate
from projectionist.core.settings.settings import Policy
from projectionist.runner.admin.parked_actions import ParkedActions, SeenHead

pytestmark = pytest.mark.asyncio
ACT = Act("ann", "ticket 7")
ONE = Policy(drain_batch_size=1, late_s=0)
AGGREGATE = "order/o1"
GOOD = b'{"text": "mended"}'


class Scene:
    """One aggregate brought to a head, its events named by their versions, and the hand that brought it there."""

    def __init__(self, harness: ConsumerHarness, cls: type, driver: BatchDriver, trouble: Any) -> None:
        self.harness, self.cls, self.driver, self.trouble = harness, cls, driver, trouble

    async def stand(self) -> tuple[int, str, int]:
        """Where the aggregate stands."""
        return await self.harness.head(self.cls, AGGREGATE)

    async def is_due(self) -> bool:
        """Whether its head is to be tried now."""
        return bool(await self.harness.value("select due <= clock_timestamp() from {s}.positions"))

    async def history(self) -> list[str]:
        """What has been applied, by the row."""
        return list(msgspec.json.decode(await self.harness.value("select history::text from orders")))


@asynccontextmanager
async def scene(live: ConsumerHarness, head: str) -> AsyncIterator[Scene]:
    """Version 1 is applied; what follows makes the head."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, policy=ONE) as (driver,):

        async def settle(event: Any, version: int) -> None:
            await driver.settle(driver.read(event, "o1", version, id=str(version)))

        await settle(OrderPlaced("ann", 1), 1)
        match head:
            case "failed":
                s.trouble.later.add("2")
                await settle(OrderNoted("2"), 2)
                await live.pool.execute("update projectionist.positions set due = due + interval '1 hour'")
            case "waiting":
                s.trouble.poison.add("2")
                await settle(OrderNoted("2"), 2)
        match head:
            case "clear":
                pass
            case "draining":
                for version in (3, 4, 5, 2):
                    await settle(OrderNoted(str(version)), version)
            case _:
                await settle(OrderNoted("3"), 3)
                await settle(OrderNoted("4"), 4)
        if head == "waiting for versions":
            await live.pool.execute(
                "update projectionist.positions set head = 'waiting', finding = 'lost', due = null"
            )
            await live.count_anew()
        yield Scene(live, s.Orders, driver, s.trouble)


Verb = Callable[[ParkedActions], Awaitable[None]]


async def act(live: ConsumerHarness, cls: type, verb: Verb) -> None:
    """Do it as the command line would."""
    async with live.verbs(cls) as verbs:
        await verb(verbs)


def retry(verbs: ParkedActions) -> Awaitable[None]:
    """Try the head again."""
    return verbs.retry(AGGREGATE, ACT)


def skip(verbs: ParkedActions) -> Awaitable[None]:
    """Step over the head."""
    return verbs.skip(AGGREGATE, ACT)


def accept(verbs: ParkedActions) -> Awaitable[None]:
    """Accept that version 2 is missing."""
    return verbs.accept_gap(AGGREGATE, 2, 2, ACT)


def discard(version: int) -> Verb:
    """Drop one parked event."""
    return lambda verbs: verbs.discard(("shop", str(version)), ACT)


def edit(version: int) -> Verb:
    """Give one parked event other bytes."""
    return lambda verbs: verbs.edit(("shop", str(version)), GOOD, b"digest", ACT)


@pytest.mark.parametrize(
    ("head", "verb", "refusal"),
    [
        ("clear", retry, NotThere),
        ("clear", edit(1), TooLate),
        ("clear", skip, NotThere),
        ("clear", accept, NotThere),
        ("clear", discard(1), TooLate),
        ("gap", skip, NotThere),
        ("failed", accept, NotThere),
        ("failed", discard(2), NotThere),
        ("waiting", accept, NotThere),
        ("waiting", discard(2), NotThere),
        ("waiting for versions", skip, NotThere),
        ("draining", retry, TooLate),
        ("draining", skip, TooLate),
        ("draining", accept, TooLate),
        ("draining", discard(2), TooLate),
        ("draining", edit(3), TooLate),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_what_does_not_fit_is_refused_and_changes_nothing(
    live: ConsumerHarness, head: str, verb: Verb, refusal: type[Exception]
) -> None:
    async with scene(live, head) as at:
        tables = ("positions", "parked", "inbox", "decisions", "audit")
        before = [await live.fetch(f"select * from {{s}}.{table} order by 1, 2, 3") for table in tables]

        with pytest.raises(refusal):
            await act(live, at.cls, verb)

        assert [
            await live.fetch(f"select * from {{s}}.{table} order by 1, 2, 3") for table in tables
        ] == before


@pytest.mark.parametrize(
    ("head", "verb", "stands", "then", "decision", "due"),
    [
        ("gap", retry, (1, "gap", 2), ["placed"], None, True),
        ("gap", edit(3), (1, "gap", 2), ["placed"], "edit", None),
        ("gap", accept, (2, "draining", 2), ["placed", "3", "4"], "accept_gap", True),
        ("gap", discard(3), (1, "gap", 2), ["placed"], "discard", None),
        ("failed", retry, (1, "failed", 3), ["placed", "2", "3", "4"], None, True),
        ("failed", edit(2), (1, "failed", 3), ["placed", "mended", "3", "4"], "edit", True),
        ("failed", skip, (2, "draining", 2), ["placed", "3", "4"], "skip", True),
        ("failed", discard(3), (1, "failed", 3), ["placed"], "discard", False),
        ("waiting", retry, (1, "failed", 3), ["placed", "2", "3", "4"], None, True),
        ("waiting", edit(2), (1, "failed", 3), ["placed", "mended", "3", "4"], "edit", True),
        ("waiting", edit(4), (1, "waiting", 3), ["placed"], "edit", False),
        ("waiting", skip, (2, "draining", 2), ["placed", "3", "4"], "skip", True),
        ("waiting", discard(3), (1, "waiting", 3), ["placed"], "discard", False),
        ("waiting for versions", retry, (1, "gap", 2), ["placed"], None, True),
        ("waiting for versions", accept, (2, "draining", 2), ["placed", "3", "4"], "accept_gap", True),
        ("waiting for versions", edit(3), (1, "waiting", 2), ["placed"], "edit", False),
        ("draining", edit(4), (3, "draining", 2), ["placed", "2", "3", "mended", "5"], "edit", True),
        ("draining", discard(4), (3, "draining", 2), ["placed", "2", "3", "5"], "discard", True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_what_fits_moves_the_aggregate_and_is_recorded(
    live: ConsumerHarness,
    head: str,
    verb: Verb,
    stands: tuple[int, str, int],
    then: list[str],
    decision: str | None,
    due: bool | None,
) -> None:
    async with scene(live, head) as at:
        await act(live, at.cls, verb)

        assert await at.stand() == stands
        assert due is None or await at.is_due() is due
        assert await inspection.rows(live, "decisions", "kind", "actor", "reason") == (
            [] if decision is None else [(decision, "ann", "ticket 7")]
        )
        assert await live.fetch("select who, reason, object like 'Orders: %' from {s}.audit") == [
            ("ann", "ticket 7", True)
        ]
        at.trouble.poison.clear()
        at.trouble.later.clear()
        await at.driver.settle_due()
        assert await at.history() == then


async def test_a_retry_adds_one_try_to_a_spent_budget(live: ConsumerHarness) -> None:
    async with scene(live, "failed") as at:
        await live.pool.execute(
            "update projectionist.parked set attempts = 10, budget = 10 where version = 2"
        )
        await act(live, at.cls, retry)
        await at.driver.settle_due()

        rows = await inspection.rows(live, "parked", "attempts", "budget", version=2)
        assert rows == [(11, 11)]
        assert await at.stand() == (1, "waiting", 3)


async def test_a_skipped_head_is_skipped_in_the_inbox_and_its_decision_names_it(
    live: ConsumerHarness,
) -> None:
    async with scene(live, "waiting") as at:
        await act(live, at.cls, skip)

        assert await inspection.rows(live, "decisions", "aggregate", "version", "source", "id") == [
            (AGGREGATE, 2, "shop", "2")
        ]
        assert (await live.states(at.cls))["2"] == "skipped"


async def test_a_discarded_follower_is_stepped_over_in_its_turn(live: ConsumerHarness) -> None:
    async with scene(live, "waiting") as at:
        await act(live, at.cls, discard(3))
        assert await at.stand() == (1, "waiting", 3)
        at.trouble.poison.clear()
        await act(live, at.cls, retry)
        await at.driver.settle_due()

        assert await at.stand() == (4, "clear", 0)
        assert await at.history() == ["placed", "2", "4"]
        assert (await live.states(at.cls))["3"] == "discarded"
        assert await inspection.count_parked(live) == 0


async def test_a_discarded_follower_that_nobody_can_read_is_stepped_over_too(live: ConsumerHarness) -> None:
    async with scene(live, "gap") as at:
        await live.pool.execute("update projectionist.parked set data = '{' where version = 3")
        await act(live, at.cls, discard(3))
        await act(live, at.cls, accept)
        await at.driver.settle_due()

        assert await at.history() == ["placed", "4"]


async def test_an_edit_keeps_both_hashes_and_a_redelivery_is_a_plain_duplicate(live: ConsumerHarness) -> None:
    async with scene(live, "waiting") as at:
        first = await inspection.value(live, "inbox", "hash", id="2")
        await act(live, at.cls, edit(2))
        assert await inspection.rows(live, "parked", "hash", "edited_hash", id="2") == [(first, b"digest")]
        assert await inspection.rows(live, "decisions", "data", "hash") == [(GOOD, b"digest")]
        await at.driver.settle_due()

        await at.driver.settle(at.driver.read(OrderNoted("2"), "o1", 2, id="2", seq=9_999))

        assert await at.history() == ["placed", "mended", "3", "4"]
        assert await inspection.value(live, "inbox", "hash", id="2") == first
        assert await inspection.rows(live, "duplicates", "seq") == [(9_999,)]
        assert await inspection.count_incidents(live) == 0


async def test_accepting_a_part_of_a_gap_leaves_the_rest_of_it(live: ConsumerHarness) -> None:
    async with scene(live, "clear") as at:
        await at.driver.settle(at.driver.read(OrderPaid(), "o1", 6, id="6"))
        await act(live, at.cls, lambda verbs: verbs.accept_gap(AGGREGATE, 2, 3, ACT))
        await at.driver.settle_due()
        assert await at.stand() == (3, "gap", 1)

        with pytest.raises(NotThere, match="Missing are 4 to 5"):
            await act(live, at.cls, lambda verbs: verbs.accept_gap(AGGREGATE, 4, 6, ACT))
        await act(live, at.cls, lambda verbs: verbs.accept_gap(AGGREGATE, 4, 5, ACT))
        await at.driver.settle_due()
        assert await at.stand() == (6, "clear", 0)


@pytest.mark.parametrize(
    "verb",
    [
        lambda verbs: verbs.retry(AGGREGATE, ACT, seen=SeenHead(0, ("shop", "2"), 1)),
        lambda verbs: verbs.skip(AGGREGATE, ACT, seen=SeenHead(1, ("shop", "3"), 1)),
        lambda verbs: verbs.skip(AGGREGATE, ACT, seen=SeenHead(1, ("shop", "2"), 0)),
        lambda verbs: verbs.accept_gap(AGGREGATE, 5, 6, ACT),
        lambda verbs: verbs.discard(("shop", "unknown"), ACT),
    ],
)
async def test_what_the_operator_saw_and_is_no_longer_so_is_too_late(
    live: ConsumerHarness, verb: Verb
) -> None:
    async with scene(live, "waiting") as at:
        with pytest.raises(TooLate):
            await act(live, at.cls, verb)


async def test_an_aggregate_nobody_has_seen_is_said_so(live: ConsumerHarness) -> None:
    async with scene(live, "clear") as at:
        with pytest.raises(NotThere, match="never seen"):
            await act(live, at.cls, lambda verbs: verbs.retry("order/none", ACT))


async def test_an_act_without_a_name_or_a_reason_is_none() -> None:
    for who, why in (("", "reason"), ("ann", " ")):
        with pytest.raises(NotThere):
            Act(who, why)


@pytest.mark.parametrize("verb", [edit(2), discard(2), skip, retry], ids=["edit", "discard", "skip", "retry"])
async def test_a_verb_that_waits_for_a_drain_sees_what_the_drain_has_done(
    live: ConsumerHarness, verb: Verb
) -> None:
    """The drainer holds the old bytes of version 2: an edit now would be audited, and never happen."""
    async with scene(live, "waiting") as at:
        at.trouble.poison.clear()
        await act(live, at.cls, retry)
        await at.driver.session.close()  # so that the next batch makes its model anew
        reached, go_on = stalled(at.driver)
        drain = asyncio.create_task(at.driver.settle(due=[AGGREGATE]))
        await reached.wait()
        late = asyncio.create_task(act(live, at.cls, verb))
        await live.blocked()
        go_on.set()
        await drain

        with pytest.raises((TooLate, NotThere)):
            await late
        assert (await at.history())[:2] == ["placed", "2"]


async def test_without_order_an_event_is_edited_tried_again_and_discarded_by_its_name(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.update({"a", "b", "c"})
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(*(driver.read(OrderNoted(n), "o1", None, id=n) for n in "abc"))
        await act(live, s.Orders, lambda verbs: verbs.edit(("shop", "a"), GOOD, b"digest", ACT))
        await act(live, s.Orders, lambda verbs: verbs.discard(("shop", "b"), ACT))
        s.trouble.poison.clear()
        await act(live, s.Orders, lambda verbs: verbs.retry_entry(("shop", "c"), ACT))
        await driver.settle_due()

    assert await live.states(s.Orders) == {"a": "applied", "b": "discarded", "c": "applied"}
    assert sorted(msgspec.json.decode((await live.rows("orders"))[0][3])) == ["c", "mended"]
    assert await inspection.rows(live, "decisions", "kind", "id", order="kind") == [
        ("discard", "b"),
        ("edit", "a"),
    ]
    assert await inspection.rows(live, "audit", "action", order="action") == [
        ("discard",),
        ("edit",),
        ("retry",),
    ]


async def test_an_event_in_order_is_retried_by_its_aggregate(live: ConsumerHarness) -> None:
    async with scene(live, "waiting") as at:
        with pytest.raises(NotThere, match="Retry its aggregate"):
            await act(live, at.cls, lambda verbs: verbs.retry_entry(("shop", "2"), ACT))

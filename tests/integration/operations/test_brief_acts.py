"""Purges, erases and previews as operations: rows while they last, gone where they were done at once.

The windows: killed at the beginning, in the middle and at the end, stopped in the middle, two at once, a database that
takes no rows.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.console_client import behind, serving, text_of
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import WORD, holders
from tests.support.gateway import gateway
from tests.support.parked_operations import WHY, lively, operating, silence
from tests.support.rebuilding import Slow
from tests.support.retention import age, sent
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually, listening

from projectionist.core.operator import Act
from projectionist.core.postgres import connections
from projectionist.core.states import OperationOutcome
from projectionist.ops.cli.database import database
from projectionist.ops.cli.operation_progress import watch
from projectionist.projections import definition
from projectionist.runner import App
from projectionist.runner.admin.erasure import Eraser
from projectionist.runner.admin.erasure_report import EraseTarget
from projectionist.runner.database.queries import Queries
from projectionist.runner.history.progress import PhaseProgress, Progress
from projectionist.runner.operations.long_act import ActStopped, long_act
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.operations.operation_store import OperationStore, lent_store
from projectionist.runner.preview.preview import Previewer
from projectionist.runner.retention.background_purge import streams
from projectionist.runner.retention.purge import Purger

pytestmark = pytest.mark.asyncio

CALLS = {
    "purge": ("purge", APP),
    "erase": ("erase", APP, "--aggregate", "order/o1"),
    "preview": ("preview", APP, "Orders"),
}
ABOUT: dict[str, dict[str, object]] = {
    "purge": {"consumer": "Orders, Spend"},
    "erase": {"aggregate": "order/o1"},
    "preview": {"consumer": "Orders", "sample": 1000},
}
PHASES = {"purge": "inbox", "erase": "emptying", "preview": "folding"}
ANN = Act("ann", "ticket 7")


class Halted(Slow):
    """Progress that stands still in one phase, until it is let go."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self._halts, self._is_there = PHASES[kind], False

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase."""
        super().begin(phase, total)
        self._is_there = phase.startswith(self._halts)

    async def advance(self, done: int) -> None:
        """Wait, where it is the one."""
        if self._is_there:
            await super().advance(done)


async def settled_long_ago(live: ConsumerHarness) -> Any:
    """A shop whose orders were settled, and their intents sent, longer ago than retention keeps them."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend)
    for n in range(3):
        await live.publish(OrderPlaced("ann", 5), f"o{n}", 1)
    await live.publish(OrderNoted(WORD), "o1", 2)
    await live.settle(made.Orders, made.Spend)
    await sent(live)
    await age(live, 31)
    return made


def at(live: ConsumerHarness, cli: Cli, **env: str) -> Cli:
    """The command line with the app at hand."""
    return Cli(live, cli.folder, **{**environment(live), **env})


async def seem(live: ConsumerHarness, hours: int) -> None:
    """Have whatever is begun from now on have begun so many hours ago; below zero: no machine is too slow for it."""
    began = f"clock_timestamp() - interval '{hours} hours'"
    await live.pool.execute(f"alter table {SCHEMA}.operations alter column began set default {began}")


async def act(live: ConsumerHarness, kind: str, progress: Progress) -> object:
    """Carry one out as its command does, in this process."""
    views = [definition(cls) for cls in (shop(live.stream).Orders, shop(live.stream).Spend)]
    given = (live.settings.postgres, OperationKind(kind), ABOUT[kind], ANN, "here", progress)
    connection = await connections.connect(live.settings.postgres, application_name="test")
    try:
        async with long_act(*given) as told:
            match kind:
                case "erase":
                    target = EraseTarget(aggregate="order/o1")
                    eraser = Eraser(connection, live.nats, live.settings, views, told)
                    return await eraser.erase(target, ANN)
                case "preview":
                    queries = Queries(connection, SCHEMA)
                    return await Previewer(queries, views[0], live.settings, live.nats, told).run(1000)
            names, lent = [view.name for view in views], live.pool.acquire
            return await Purger(lent, live.settings, names, streams(live.nats), told, rest=0).run()
    finally:
        await connection.close()
    raise AssertionError("the task group neither returned nor raised")


async def is_done(live: ConsumerHarness, kind: str) -> None:
    """Assert that what an act of this kind is for was done, and that its rows hold nothing of what went."""
    await live.assert_sound()
    rows = await live.rows("orders")
    if kind == "erase":
        assert (await holders(live, WORD), [row[0] for row in rows]) == ([], ["o0", "o2"])
    else:
        assert (len(rows), await inspection.count_inbox(live)) == (3, 0 if kind == "purge" else 8)


@pytest.mark.parametrize("kind", CALLS)
async def test_one_that_is_done_at_once_is_seen_meanwhile_and_leaves_no_row(
    live: ConsumerHarness, cli: Cli, kind: str
) -> None:
    await settled_long_ago(live)
    await seem(live, -1)
    app, pausing = at(live, cli), {"long_act.begun": 1}
    async with operating(app, *CALLS[kind], *WHY, pause_at=pausing, env=environment(live)) as child:
        await child.paused("long_act.begun")
        [one] = (await app.seen("operations", "list", "--open"))["operations"]
        told = (one["kind"], one["who"], one["reason"], one["chosen"])
        assert told == (kind, "ann", WHY[1], ABOUT[kind])
        child.signal(signal.SIGCONT)
        assert (await child.ended()).code in (0, 3), child.err
    assert await inspection.count(live, "operations") == 0
    await is_done(live, kind)


@pytest.mark.parametrize("kind", CALLS)
async def test_one_that_lasts_stays_on_record_without_what_it_removed(
    live: ConsumerHarness, cli: Cli, kind: str
) -> None:
    await settled_long_ago(live)
    await seem(live, 1)
    app = at(live, cli)
    await app.done(*CALLS[kind], *WHY)
    shown = await app.seen("operations", "show", "1")
    assert (shown["state"], shown["left"], shown["done"] == shown["matched"] > 0) == ("done", 0, True)
    assert (shown["who"], shown["reason"], bool(shown["phase"])) == ("ann", WHY[1], True)
    assert (await app.run("operations", "show", "1")).code == 0
    await is_done(live, kind)


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("purge", "long_act.begun"),
        ("purge", "purge.removed"),
        ("erase", "long_act.begun"),
        ("erase", "erase.emptying"),
        ("erase", "erase.done"),
        ("preview", "preview.done"),
    ],
)
async def test_one_that_is_killed_is_told_and_has_ended_when_it_is_begun_again(
    live: ConsumerHarness, cli: Cli, kind: str, moment: str
) -> None:
    await settled_long_ago(live)
    app = at(live, cli)
    async with operating(app, *CALLS[kind], *WHY, kill_at={moment: 1}, env=environment(live)) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await silence(live)
    for command in (("status",), ("doctor", APP)):
        ended = await app.run(*command)
        assert (ended.code, "nobody carries it out since" in ended.out) == (3, True), command
    refused = await app.refused("operations", "take-up", "1", *WHY)
    assert f"operation 1 ({kind}) is not taken up" in refused

    await app.done(*CALLS[kind], *WHY)
    shown = await app.seen("operations", "show", "1")
    assert (shown["state"], shown["note"]) == ("stopped", "begun again by ann")
    assert (await app.seen("operations", "list", "--open"))["operations"] == []
    await is_done(live, kind)


@pytest.mark.parametrize("kind", CALLS)
async def test_one_is_stopped_from_elsewhere_and_goes_on_when_it_is_begun_again(
    live: ConsumerHarness, cli: Cli, kind: str
) -> None:
    await settled_long_ago(live)
    halted = Halted(kind)
    acting = asyncio.create_task(act(live, kind, halted))
    await halted.reached.wait()
    stop = ("operations", "stop", "1", "--actor", "bob", "--reason", "at night")
    assert "is asked to stop" in await cli.done(*stop)
    with pytest.raises(ActStopped, match="operation 1 was stopped: bob: at night"):
        await acting
    await live.assert_sound()
    shown = await cli.seen("operations", "show", "1")
    assert (shown["state"], shown["note"]) == ("stopped", "bob: at night")
    await act(live, kind, PhaseProgress())
    await is_done(live, kind)


@pytest.mark.parametrize("kind", CALLS)
async def test_two_at_once_are_two_operations_and_neither_ends_the_other(
    live: ConsumerHarness, cli: Cli, kind: str
) -> None:
    await settled_long_ago(live)
    await seem(live, 1)
    both = Halted(kind), Halted(kind)
    acting = [asyncio.create_task(act(live, kind, one)) for one in both]
    for one in both:
        await one.reached.wait()
    found = (await cli.seen("operations", "list", "--open"))["operations"]
    assert [one["kind"] for one in found] == [kind, kind]
    for one in both:
        one.free.set()
    await asyncio.gather(*acting)
    assert await inspection.rows(live, "operations", "kind", "outcome") == [(kind, "done")] * 2
    await is_done(live, kind)


async def test_one_that_others_carry_out_is_not_ended_by_the_same_one(live: ConsumerHarness) -> None:
    async with live.connected() as connection:
        store = OperationStore(connection, SCHEMA)
        for about in ({"consumer": "Orders"}, {"consumer": "Spend"}):
            await store.begin_long_act(OperationKind.PURGE, about, ANN, "there")
        await silence(live)
        for _ in range(2):
            await store.begin_long_act(OperationKind.PURGE, {"consumer": "Orders"}, ANN, "here")
    found = await inspection.rows(live, "operations", "number", "outcome", order="number")
    assert found == [(1, "stopped"), (2, None), (3, None), (4, None)]


async def test_an_erase_that_is_refused_leaves_a_row_that_says_so(live: ConsumerHarness, cli: Cli) -> None:
    await settled_long_ago(live)
    held = {"PROJECTIONIST_CONSUMERS__Orders__LEGAL_HOLD": "true"}
    app = at(live, cli, **held)
    ended = await app.run(*CALLS["erase"], *WHY)
    assert (ended.code, "error: Orders is under legal hold" in ended.err) == (1, True)
    shown = await app.seen("operations", "show", "1")
    assert (shown["state"], "legal hold" in shown["note"]) == ("failed", True)


async def test_a_preview_of_a_database_that_takes_no_rows_does_without_one(
    live: ConsumerHarness, cli: Cli
) -> None:
    await settled_long_ago(live)
    url = f"{live.database}?default_transaction_read_only=on"
    app = at(live, cli, PROJECTIONIST_POSTGRES__URL=url)
    assert "3 rows of generation 1 compared" in await app.done(*CALLS["preview"])
    assert await inspection.count(live, "operations") == 0


async def test_a_preview_of_the_console_is_the_same_operation(live: ConsumerHarness, cli: Cli) -> None:
    s = await settled_long_ago(live)
    await seem(live, 1)
    async with serving(App(projections=[s.Orders]), live.settings, name="shop.app:app") as served:
        ann = await served.logged_in("ann")
        told = await ann.submit("/act/preview?consumer=Orders", sample="200", reason="in doubt")
        assert "has begun" in told

        async def done() -> bool:
            page = text_of(await ann.see("/operation?number=1"))
            return "preview of" in page and "Nobody has to act." in page and "Took" in page

        await eventually(done)
    [one] = (await cli.seen("operations", "list"))["operations"]
    assert (one["kind"], one["who"], one["reason"], one["state"]) == ("preview", "ann", "in doubt", "done")
    assert one["chosen"] == {"consumer": "Orders", "sample": 200}


async def test_one_that_is_watched_while_it_is_done_at_once_is_told_to_be_done(
    live: ConsumerHarness, cli: Cli
) -> None:
    store = OperationStore(await connections.connect(live.settings.postgres, application_name="test"), SCHEMA)
    try:
        for number in (1, 2):
            grant = await store.begin_long_act(OperationKind.PURGE, {"consumer": "Orders"}, ANN, "here")
            await lively(live)
            async with operating(cli, "operations", "watch", str(number)) as child:
                await child.heard("operation.watched")
                await store.end(grant, OperationOutcome.DONE, None)
                await live.pool.execute(f"delete from {SCHEMA}.operations where number = $1", number)
                ended = await child.ended()
            assert (ended.code, ended.out) == (
                0,
                f"operation {number} is done: what is done at once leaves no row\n",
            )
        assert "there is no operation 2" in await cli.refused("operations", "watch", "2")
        await store.begin_long_act(OperationKind.PURGE, {"consumer": "Orders"}, ANN, "here")
        gone = await cli.refused("operations", "watch", "2")
        assert (
            "operation 2 is on record no more. A purge, erase or preview that was done at once leaves none"
            in gone
        )
    finally:
        await store.connection.close()


async def test_an_operation_is_watched_over_an_outage_to_its_end(
    live: ConsumerHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    async with lent_store(live.settings.postgres) as store, gateway(live.database) as gate:
        grant = await store.begin_long_act(OperationKind.VERIFY, {"consumer": "Orders"}, ANN, "here")
        await lively(live)
        with listening() as heard:
            async with database("test", behind(live, gate)) as db:
                watching = asyncio.create_task(watch(db, grant.number))
                await heard.wait("operation.watched")
                gate.refusing = True
                gate.cut()
                await heard.wait("operation.watched", heard.counts["operation.watched"] + 3)
                assert not watching.done()
                gate.refusing = False
                await store.end(grant, OperationOutcome.DONE, None)
                ended = await watching
    assert ended is not None
    assert ended.outcome == OperationOutcome.DONE
    assert capsys.readouterr().err.count("PostgreSQL does not answer, and is waited for") == 1

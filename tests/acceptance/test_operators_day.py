"""An operator's day, by the command line alone: a bad release, what it left behind, and history that still agrees."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.waiting import HANG_S, eventually

from projectionist.projections import Event

pytestmark = pytest.mark.asyncio

SHOP = """
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "site-packages"))
from parsing import cents

from projectionist.outbox import Intent
from projectionist.projections import Event, Projection, on
from projectionist.runner import App

class Placed(Event, type="day.placed"):
    amount: str

class Paid(Event, type="day.paid"):
    pass

class Receipt(Intent, provider="email"):
    order_id: str

class Orders(Projection, stream="{stream}", subjects="{stream}.order.{{aggregate}}", table="orders", key="order_id",
             effects="beginning"):
    order_id: str
    cents: int = 0
    status: str = "new"

    @on(Placed)
    def placed(self, event: Placed) -> None:
        self.cents, self.status = cents(event.amount), "placed"

    @on(Paid)
    def paid(self, event: Paid) -> Receipt:
        self.status = "paid"
        return Receipt(order_id=self.order_id)

app = App(projections=[Orders])
"""
BAD = "def cents(amount): return round(float(amount) * 100)\n"
GOOD = "def cents(amount): return round(float(amount.replace(',', '.')) * 100)\n"
WRONG = "ValueError: could not convert string to float: …"


class Placed(Event, type="day.placed"):
    """An order as its producer publishes it."""

    amount: str


class Paid(Event, type="day.paid"):
    """It was paid."""


async def publish(live: ConsumerHarness) -> None:
    """What producers send that day: half of the amounts have a comma, one is garbage, one a test; one event is lost."""
    for n in range(20):
        await live.publish(Placed(f"{n},50" if n % 2 else f"{n}.50"), f"o{n}", 1, id=f"placed-{n}")
        await live.publish(Paid(), f"o{n}", 2, id=f"paid-{n}")
    for name in ("garbage", "test"):
        await live.publish(Placed(name), name, 1, id=f"placed-{name}")
        await live.publish(Paid(), name, 2, id=f"paid-{name}")
    await live.publish(Placed("1.00"), "lost", 1, id="placed-lost")
    await live.publish(Paid(), "lost", 3, id="paid-lost")


@asynccontextmanager
async def running(cli: Cli) -> AsyncIterator[None]:
    """The consumers at work in a process of their own, which ends as one does at a deployment."""
    async with projectionist("run", "day:app", cwd=cli.folder) as process:
        await process.heard("worker.running")
        yield
        process.signal(signal.SIGTERM)
        assert (await process.ended()).code == 0


async def groups(cli: Cli) -> list[tuple[Any, ...]]:
    """What waits, as the operator sees it."""
    found = (await cli.seen("parked", "list", "--reveal", "--reason", "what a group has"))["groups"]
    return [(g["count"], g["waiting"], g["cause"], g["why"]) for g in found]


async def see(cli: Cli, expected: list[tuple[Any, ...]]) -> None:
    """Look until it is so."""

    async def so() -> bool:
        found = await groups(cli)
        assert found == expected, found
        return True

    await eventually(so)


@pytest.mark.deadline(240)
async def test_an_operators_day(live: ConsumerHarness, tmp_path: Path) -> None:
    cli = Cli(live, tmp_path, more="[consumer_defaults]\ngap_fetch_delay_ms = 50\nlate_s = 0\n")
    (tmp_path / "day.py").write_text(SHOP.format(stream=live.stream.name))
    library = tmp_path / "site-packages" / "parsing.py"
    library.parent.mkdir()
    library.write_text(BAD)
    why = ("--consumer", "Orders", "--reason", "release 7 reads commas")
    await cli.done("migrate", "day:app")
    await publish(live)

    # The bad release: twelve orders fail, what follows them waits, and one order lacks an event.
    async with running(cli):
        await see(
            cli,
            [
                (12, 12, "failed", WRONG),
                (12, 0, "blocked", "behind an event that failed"),
                (1, 1, "gap", "behind missing versions: lost"),
            ],
        )
        assert (await cli.run("status")).code == 3
    [sample] = (await cli.seen("parked", "show", "placed-1", "--reveal", *why))["events"]
    assert sample["error"] == "could not convert string to float: '1,50'"
    assert "in cents" in sample["stack"]

    # The fix is in an installed library: the handlers' fingerprint stays, and nothing is tried again by itself.
    library.write_text(GOOD)
    async with running(cli):
        done = await cli.seen("parked", "retry", "--error", WRONG, *why)
        assert (done["changed"], done["left"]) == (["placed-1"], 11)
        await see(
            cli,
            [
                (11, 11, "failed", WRONG),
                (11, 0, "blocked", "behind an event that failed"),
                (1, 1, "gap", "behind missing versions: lost"),
            ],
        )
        patient = ("--all", "--wait", f"{HANG_S}")
        done = await cli.seen("parked", "retry", "--error", WRONG, *patient, *why)
        assert (len(done["changed"]), len(done["failed"]), done["left"]) == (11, 2, 0)
        [told] = (await cli.seen("operations", "list"))["operations"]
        assert (told["who"], told["done"], told["failed"], told["state"]) == ("ann", 9, 2, "done")
        await see(
            cli,
            [
                (2, 2, "failed", WRONG),
                (2, 0, "blocked", "behind an event that failed"),
                (1, 1, "gap", "behind missing versions: lost"),
            ],
        )
        (tmp_path / "fixed.json").write_text('{"amount": "7.00"}')
        edit = ("--data", "fixed.json", "--consumer", "Orders", "--reason", "as the customer says")
        await cli.done("parked", "edit", "placed-garbage", *edit)
        await cli.done("parked", "skip", "placed-test", "--consumer", "Orders", "--reason", "a test")
        lost = ("--aggregate", "order/lost", "--versions", "2..2", "--reason", "the producer never sent it")
        await cli.done("parked", "accept-gap", "--consumer", "Orders", *lost)
        await see(cli, [])
        assert (await cli.seen("incidents", "list", "--each"))["incidents"] == []
        assert await live.fetch("select kind, closed is not null from {s}.incidents") == [("lost", True)]
        await eventually(lambda: live.value("select bool_and(status = 'paid') from orders"))
        attention = (await cli.seen("status"))["attention"]
        # Nobody has begun to send the receipts; some may still be staged.
        assert {"no relay runs" in str(one) for one in attention} == {True}, attention

        rows = await live.rows("orders", order="order_id")
        assert {row[0]: row[1] for row in rows}["garbage"] == 700
        assert len(rows) == 23
        acts = (await cli.seen("audit", "--who", "ann", "--limit", "999"))["acts"]
        acts = [act for act in acts if act["action"] != "reveal"]
        assert [act["action"] for act in acts] == [
            "retry",
            "begin-operation",
            *["retry"] * 11,
            "edit",
            "skip",
            "accept-gap",
        ]
        assert {act["object"] for act in acts[13:16]} == {
            f"Orders: order/{name}" for name in ("garbage", "test", "lost")
        }

        assert (await cli.run("rebuild", "day:app", "Orders")).code == 0
        verified = await cli.run("verify", "day:app", "Orders", "--all")
        assert verified.code == 0, verified.out + verified.err
    assert await live.rows("orders", order="order_id") == rows
    assert await live.value("select count(distinct id) = 23 and count(*) = 23 from {s}.intents")

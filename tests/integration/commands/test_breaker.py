"""`projectionist breaker reset`, and what `projectionist status` shows of a breaker and of a backlog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Ended, run_projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, shop
from tests.support.waiting import eventually

from projectionist.core.settings.settings import BreakerLimits, Policy

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def tripped(live: ConsumerHarness, tmp_path: Path) -> Path:
    """A folder with settings for a database in which a consumer's breaker has opened."""
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(3):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)
    async with live.running(s.Orders, policy=Policy(breaker=BreakerLimits(max_failing_keys=3))):
        await eventually(lambda: inspection.count(live, "consumer_breakers", state="open"))
    text = f'[postgres]\nurl = "{live.database}"\n[nats]\nurl = ["{live.servers.nats_url}"]\n'
    (tmp_path / "projectionist.toml").write_text(text)
    return tmp_path


async def test_status_says_that_it_is_open_why_and_what_ends_it(tripped: Path) -> None:
    shown = await run_projectionist("status", cwd=tripped)

    assert shown.code == 3
    assert "breaker open" in shown.out
    assert "Orders: the breaker is open: 3 keys failed within 60 s." in shown.out
    assert "`projectionist breaker reset Orders --reason …`" in shown.out


async def test_a_reset_closes_it_once_and_says_who_did_it_why(live: ConsumerHarness, tripped: Path) -> None:
    async def reset(*more: str) -> Ended:
        return await run_projectionist("breaker", "reset", "Orders", "--reason", "mended", *more, cwd=tripped)

    assert (await reset("--actor", "ann")).out == "Orders: the breaker is closed again\n"
    assert (await reset()).out == "Orders: the breaker was not open\n"

    told = await inspection.rows(live, "audit", "who", "action", "reason", action="breaker-reset")
    assert told == [("ann", "breaker-reset", "mended")]
    shown = json.loads((await run_projectionist("status", "--json", cwd=tripped)).out)
    [one] = shown["consumers"]
    assert (one["breaker"], one["backlog"]) == (None, 0)


async def test_a_name_nobody_knows_and_a_reason_that_is_none_are_refused(tripped: Path) -> None:
    unknown = await run_projectionist("breaker", "reset", "Nobody", "--reason", "x", cwd=tripped)
    blank = await run_projectionist("breaker", "reset", "Orders", "--reason", " ", cwd=tripped)

    assert (unknown.code, unknown.err) == (
        1,
        "error: there is no consumer 'Nobody'. `projectionist status` lists them\n",
    )
    assert blank.code == 1
    assert "needs an actor and a reason" in blank.err


async def test_status_shows_the_backlog_beside_the_lag(live: ConsumerHarness, tripped: Path) -> None:
    await live.value(
        f"update {SCHEMA}.positions set head = 'draining' where aggregate = 'order/o1' returning 1"
    )
    await live.count_anew()
    live.tampered = True

    shown = await run_projectionist("status", cwd=tripped)

    head, line = (
        row.split("  ") for row in shown.out.splitlines() if row.startswith(("consumer", "Orders  "))
    )
    columns = [cell.strip() for cell in head if cell.strip()]
    values = [cell.strip() for cell in line if cell.strip()]
    assert dict(zip(columns, values, strict=True))["backlog"] == "1"

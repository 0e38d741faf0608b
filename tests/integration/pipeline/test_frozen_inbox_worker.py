"""A worker that is stopped by its system, not by us, while it holds claims: others go on, and it doubles nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Child, projectionist
from tests.support.shop import OrderNoted, shop
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

APP = """
from tests.support.servers import Stream
from tests.support.shop import shop
from projectionist.runner import App

app = App(projections=[shop(Stream("{stream}")).Orders])
"""
SETTINGS = """
app = "frozen:app"
[postgres]
url = "{database}"
[nats]
url = ["{nats}"]
[run]
heartbeat_s = 0.2
lease_s = 1
[telemetry]
allow_unmonitored = true
[consumer_defaults]
ack = "after-store"
ack_wait_s = 1
"""
ORDERS, EACH = 20, 25


@pytest.fixture
def folder(live: ConsumerHarness, tmp_path: Path) -> Path:
    """Where the processes start: an app on the test's stream, and its settings."""
    (tmp_path / "frozen.py").write_text(APP.format(stream=live.stream.name))
    settings = SETTINGS.format(database=live.database, nats=live.servers.nats_url)
    (tmp_path / "projectionist.toml").write_text(settings)
    return tmp_path


async def fill(live: ConsumerHarness) -> None:
    """Store every event of every order in the stream, in order."""
    await live.publish_all(
        (OrderNoted(f"n{version}"), f"o{number}", version, f"{number}-{version}")
        for version in range(1, EACH + 1)
        for number in range(ORDERS)
    )


async def complete(live: ConsumerHarness) -> bool:
    """Whether every event has been applied."""
    assert await inspection.count_inbox(live, state="applied") == ORDERS * EACH
    return True


async def check(live: ConsumerHarness, cls: type) -> None:
    """Every order has its whole history once."""
    text = "[" + ", ".join(f'"n{version}"' for version in range(1, EACH + 1)) + "]"
    assert {row[0]: row[3] for row in await live.rows("orders")} == {f"o{n}": text for n in range(ORDERS)}
    assert await live.unaccounted(cls) == []
    assert await inspection.count_parked(live) == 0


async def test_what_a_frozen_worker_had_claimed_is_applied_by_another(
    live: ConsumerHarness, folder: Path
) -> None:
    orders = shop(live.stream).Orders
    await live.migrate(orders)
    async with projectionist("run", cwd=folder, pause_at={"drain.claimed": 1}) as frozen:
        await frozen.heard("worker.running")
        await fill(live)
        await frozen.heard("drain.claimed")
        async with projectionist("run", cwd=folder) as other:
            await eventually(lambda: complete(live))
            await ended(other)
        frozen.signal(signal.SIGCONT)
        await ended(frozen)

    await check(live, orders)


# While it stores what has come, and between a commit and what follows it.
@pytest.mark.parametrize("moment", ["batch.folded", "batch.committed"])
async def test_what_a_frozen_worker_had_in_hand_is_applied_by_another(
    live: ConsumerHarness, folder: Path, moment: str
) -> None:
    orders = shop(live.stream).Orders
    await live.migrate(orders)
    async with (
        projectionist("run", cwd=folder) as other,
        projectionist("run", cwd=folder, pause_at={moment: 1}) as frozen,
    ):
        await other.heard("worker.running")
        await frozen.heard("worker.running")
        await fill(live)
        await frozen.heard(moment)
        await eventually(lambda: complete(live))
        await ended(other)
        frozen.signal(signal.SIGCONT)
        await ended(frozen)

    await check(live, orders)


async def ended(child: Child) -> None:
    """Ask a process to stop, and see that it does so in peace."""
    child.signal(signal.SIGTERM)
    end = await child.ended()
    assert end.code == 0, end.err


async def test_a_worker_that_is_slow_and_lives_keeps_what_it_has_claimed(
    live: ConsumerHarness, folder: Path
) -> None:
    orders = shop(live.stream).Orders
    await live.migrate(orders)
    (folder / "frozen.py").write_text(APP.format(stream=live.stream.name) + SLOW)
    await live.publish(OrderNoted("slow"), "o1", 1)
    async with projectionist("run", cwd=folder) as slow, projectionist("run", cwd=folder) as other:
        await slow.heard("source.open")
        await other.heard("source.open")
        await eventually(lambda: held(live))
        [owner] = await inspection.rows(live, "positions", "owner")
        for _ in range(5):
            await renewed(live, owner[0])
        assert await inspection.rows(live, "positions", "owner") == [owner]
        (folder / "go").touch()
        await eventually(lambda: applied(live))
        await ended(slow)
        await ended(other)

    assert await live.rows("orders") == [("o1", "new", 0, '["slow"]')]


# A pure handler that takes its time: nothing else of its event loop gets a turn.
SLOW = """
import time
from pathlib import Path
from tests.support.shop import Trouble

def meet(self, text):
    while not Path("go").exists():
        time.sleep(0.01)

Trouble.meet = meet
"""


async def held(live: ConsumerHarness) -> bool:
    """Whether somebody has claimed the order."""
    return bool(await live.value("select count(*) from {s}.positions where owner is not null"))


async def renewed(live: ConsumerHarness, owner: int) -> None:
    """Return when the owner's lease was renewed once more."""
    before = await inspection.value(live, "runners", "leased_until", number=owner)

    async def later() -> bool:
        return bool(
            await live.value("select leased_until > $2 from {s}.runners where number = $1", owner, before)
        )

    await eventually(later)


async def applied(live: ConsumerHarness) -> bool:
    """Whether the order's one event was applied."""
    return bool(await inspection.count_inbox(live, state="applied"))

"""A relay that is killed anywhere between finding an intent due and its promotion: the next one does what is left."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.process import projectionist
from tests.support.scheduling import Scheduling, scheduling
from tests.support.stub_provider import stub_provider

pytestmark = pytest.mark.asyncio

PAST, DAY = timedelta(hours=-1), timedelta(days=1)
MOMENTS = ["schedule.looked", "outbox.opened", "schedule.cancelled", "schedule.promoted", "relay.leased"]


@pytest_asyncio.fixture
async def shop(database: str) -> AsyncIterator[Scheduling]:
    async with scheduling(database) as made:
        yield made


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_relay_killed_at_any_moment_of_a_round_sends_once_what_was_not_taken_back(
    shop: Scheduling, tmp_path: Path, moment: str
) -> None:
    sent = await shop.wish(1, PAST, provider="payments")
    taken = await shop.wish(1, PAST, aggregate="order/2", provider="payments")
    later = await shop.wish(1, DAY, aggregate="order/3", provider="payments")
    await shop.cancel(2, aggregate="order/2")
    async with stub_provider() as stub:
        assert shop.harness.settings.postgres.url is not None
        (tmp_path / "projectionist.toml").write_text(f"""
            [postgres]
            url = "{shop.harness.settings.postgres.url.reveal()}"
            [providers.payments]
            url = "{stub.url()}"
            private_hosts = ["127.0.0.1"]
            profile = "stripe-v2"
        """)
        app = "tests.support.relay_app:payments"
        async with projectionist("relay", app, cwd=tmp_path, kill_at={moment: 1}) as first:
            assert (await first.ended()).code == -signal.SIGKILL
        await shop.harness.end_leases()
        async with projectionist("relay", app, cwd=tmp_path) as second:
            await shop.harness.becomes(sent, "sent")
            second.signal(signal.SIGTERM)
            assert (await second.ended()).code == 0
        assert stub.executions == {sent: 1}
    assert (await shop.place(taken), await shop.place(later)) == ("cancelled", "scheduled")
    assert await shop.counted(2, "order/2") == (True, 1, 0)


async def test_a_promotion_that_is_not_committed_is_nobodys_and_made_again(shop: Scheduling) -> None:
    key = await shop.wish(1, PAST)
    store, opener = shop.stores[0], shop.opener()
    await opener.step()
    due = await store.look()
    async with shop.connection.transaction():
        # Another relay, in the middle of its statement: what it holds is passed over.
        await shop.connection.execute("select from projectionist.schedule for update")
        assert await store.promote(due) == 0
    assert await shop.place(key) == "scheduled"
    assert await store.promote(due) == 1
    assert await store.promote(due) == 0
    assert await shop.place(key) == "ready"

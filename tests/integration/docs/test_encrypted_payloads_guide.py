"""The guide to encrypted payloads, run: live, behind a gap, in a rebuild and in verify."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import psycopg
import pytest
from nacl.utils import random
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.erasing import erase, holders
from tests.support.rebuilding import RebuildHarness

pytestmark = pytest.mark.asyncio

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "encrypted-payloads.md"


@pytest.fixture
def guide(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The guide's Python as a module."""
    module = ModuleType("guide_encrypted")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)  # noqa: S102 - our own documentation
    return module


class Shop:
    """Customers whose events are sealed under a key each."""

    def __init__(self, live: ConsumerHarness, guide: Any, connection: psycopg.Connection) -> None:
        self._live, self._guide, self._connection = live, guide, connection
        connection.execute(guide.KEYS)
        keys = guide.Keys(lambda horizon: connection.execute(guide.CHANGED, (horizon,)).fetchall(), age_s=0)
        self.customers = guide.customers(keys, live.stream.name, live.stream.subject("customer", "{id}"))
        self._secrets: dict[str, bytes] = {}

    async def moved(self, customer: str, version: int, city: str, id: str) -> None:  # noqa: A002
        """Publish a sealed event."""
        if customer not in self._secrets:
            self._secrets[customer] = random(32)
            given = (customer, self._secrets[customer])
            self._connection.execute("insert into subject_keys (subject, secret) values (%s, %s)", given)
        event = self._guide.CustomerMoved(city=city)
        body = self._guide.seal(self._secrets[customer], customer, msgspec.json.encode(event))
        headers = headers_of(event, customer, version, id=id, kind="customer")
        await self._live.publish_raw(body, headers, customer, kind="customer")

    def forget(self, customer: str) -> None:
        """Throw the key away."""
        self._connection.execute(self._guide.FORGET, (customer,))


async def test_with_its_key_a_customer_is_gone_from_stream_rebuild_and_verify(
    live: ConsumerHarness, guide: Any
) -> None:
    with psycopg.connect(live.database, autocommit=True) as connection:
        s, builders = Shop(live, guide, connection), RebuildHarness(live)
        await live.migrate(s.customers)
        await s.moved("17", 1, "Ulm", "a1")
        await s.moved("18", 1, "Bonn", "b1")
        await s.moved("18", 3, "Trier", "b3")
        await live.settle(s.customers)
        assert await live.rows("customers") == [("17", "Ulm"), ("18", "Bonn")]
        assert await inspection.count_parked(live) == 1, "behind a gap"

        s.forget("18")
        await s.moved("18", 2, "Mainz", "b2")
        await s.moved("18", 4, "Kleve", "b4")
        await live.settle(s.customers)
        assert await live.states(s.customers) == {
            "a1": "applied",
            "b1": "applied",
            "b2": "erased",
            "b3": "erased",
            "b4": "erased",
        }
        assert await live.head(s.customers, "customer/18") == (4, "clear", 0)
        assert await inspection.count_quarantined(live) == await inspection.count_parked(live) == 0
        assert (await builders.verify(s.customers)).drifted == 1, "the row that was made with the key"

        await erase(live, s.customers, aggregate="customer/18")
        assert await live.rows("customers") == [("17", "Ulm")]
        assert (await builders.verify(s.customers)).drifted == 0
        await builders.rebuild(s.customers)
        assert await live.rows("customers") == [("17", "Ulm")]
        assert await holders(live, "Bonn") == []


async def test_a_key_that_has_not_come_yet_fails_its_event_and_erases_nothing(
    live: ConsumerHarness, guide: Any
) -> None:
    with psycopg.connect(live.database, autocommit=True) as connection:
        s = Shop(live, guide, connection)
        await live.migrate(s.customers)
        await s.moved("17", 1, "Ulm", "a1")
        connection.execute("delete from subject_keys")
        await live.settle(s.customers)
        assert await live.states(s.customers) == {"a1": "parked"}

"""Connections that are kept between looks: used again, never when they are broken, and closed when nobody looks."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.support.console_client import behind
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import gateway
from tests.support.shop import shop
from tests.support.waiting import comes_true

from projectionist.console.kept_connections import KEPT, KeptConnections
from projectionist.core.postgres.connections import Connection
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Postgres
from projectionist.migrations import MigrationError


@pytest.mark.asyncio
async def test_whoever_comes_next_is_lent_the_same_one_unless_it_is_broken(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    async with gateway(live.database) as gate:
        kept = KeptConnections(behind(live, gate).postgres)
        async with kept.reading() as first, kept.reading() as second:
            assert first is not second
        with pytest.raises(MigrationError):
            async with kept.reading() as again:
                raise MigrationError("told over it")
        assert again in {first, second}
        assert gate.attempts == KEPT
        gate.cut()
        await comes_true(lambda: first.is_closed() and second.is_closed())
        async with kept.reading() as another:
            assert await another.fetchval("select 1") == 1
        kept.close()
        assert another.is_closed()


@pytest.mark.asyncio
async def test_one_that_was_cut_off_in_an_answer_or_a_transaction_is_not_lent_again(
    live: ConsumerHarness,
) -> None:
    await live.migrate(shop(live.stream).Orders)
    kept = KeptConnections(live.settings.postgres)
    with pytest.raises(OSError, match="away"):
        async with kept.reading() as first:
            raise OSError("away")
    async with kept.reading() as second:
        await second.execute("begin")
    async with kept.reading() as third, kept.reading() as fourth, kept.reading() as fifth:
        pass
    assert [one.is_closed() for one in (first, second, third, fourth, fifth)].count(False) == KEPT
    assert first.is_closed()
    assert second.is_closed()
    kept.close()


@pytest.mark.asyncio
async def test_nobody_looks_and_none_is_kept(live: ConsumerHarness) -> None:
    await live.migrate(shop(live.stream).Orders)
    kept = KeptConnections(live.settings.postgres, idle_s=0)
    async with kept.reading() as one:
        await asyncio.sleep(0)
        assert not one.is_closed()
    await comes_true(one.is_closed)


def test_what_is_kept_ends_with_the_event_loop(database: str) -> None:
    kept = KeptConnections(Postgres(url=Url(database)))

    async def look() -> Connection:
        async with kept.reading() as one:
            return one

    assert asyncio.run(look()).is_closed()


@pytest.mark.asyncio
async def test_a_database_of_another_release_is_refused_on_each_page(live: ConsumerHarness) -> None:
    kept = KeptConnections(msgspec.structs.replace(live.settings.postgres, schema="fresh"))
    for _ in range(2):
        with pytest.raises(MigrationError, match="lacks tables"):
            async with kept.reading():
                pass
    kept.close()

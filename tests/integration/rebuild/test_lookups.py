"""What a view holds of tables that others change: rebuilt, verified, mended and previewed, and what each promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.preview.test_preview import preview
from tests.support.looking_up import RATES, TABLE, Seen, Sold, looking_up
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import SCHEMA

from projectionist.runner.batch.lookup_reader import LookupReader, LookupUnavailable
from projectionist.runner.rebuild import build_state
from projectionist.runner.verify import verify as verifying

pytestmark = pytest.mark.asyncio

GERMAN, BOTH = "DE=0.1900;", "DE=0.1900 FR=0.2000;"


@pytest_asyncio.fixture
async def sold(rebuilds: RebuildHarness) -> type:
    """Three orders, of which one has looked nothing up."""
    harness, s = rebuilds.harness, looking_up(rebuilds.harness.stream)
    await harness.pool.execute(TABLE)
    await harness.pool.execute(RATES)
    await harness.migrate(s.Taxed)
    for version in (1, 2):
        await harness.publish(Sold(("DE",), 1), "o-1", version)
        await harness.publish(Sold(("DE", "FR"), 1), "o-2", version)
        await harness.publish(Seen(), "o-3", version)
    await harness.settle(s.Taxed)
    taxed: type = s.Taxed
    return taxed


async def rows(rebuilds: RebuildHarness) -> list[tuple[Any, ...]]:
    """The rows as readers see them."""
    return await rebuilds.harness.rows("taxed", "order_id")


LIVE = [("o-1", GERMAN * 2, 0), ("o-2", BOTH * 2, 0), ("o-3", "", 2)]


@pytest.mark.parametrize("memory", [1, 200_000], ids=["spilled", "at once"])
async def test_a_build_reads_each_key_once_and_says_what_differs(
    rebuilds: RebuildHarness, sold: type, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", memory)
    asked: list[str] = []
    fetch = LookupReader._fetch

    async def fetched(self: LookupReader, source: Any, keys: Sequence[Any]) -> Any:
        asked.extend(keys)
        return await fetch(self, source, keys)

    monkeypatch.setattr(LookupReader, "_fetch", fetched)
    same = await rebuilds.rebuild(sold)
    assert (sorted(asked), same.views[0].compared.differences) == (["DE", "FR"], [])
    assert await rows(rebuilds) == LIVE

    await rebuilds.harness.pool.execute("update tax_rates set rate = 0.16 where country = 'DE'")
    async with rebuilds.reading(sold) as building:  # what it catches up with is of the same reading
        await rebuilds.harness.publish(Sold(("DE",), 1), "o-4", 1)
        await rebuilds.harness.settle(sold)
        await rebuilds.harness.pool.execute("update tax_rates set rate = 0.07 where country = 'DE'")
    found = (await building).views[0].compared
    assert found.expected
    assert len(found.differences) >= 2
    rates = {rate for _, row, _ in await rows(rebuilds) for rate in row.split(";") if rate}
    assert len({rate.partition(" ")[0] for rate in rates}) == 1


@pytest.mark.parametrize("sample", [None, 100])
async def test_verify_judges_no_row_that_holds_what_was_looked_up_and_all_others(
    rebuilds: RebuildHarness, sold: type, monkeypatch: pytest.MonkeyPatch, sample: int | None
) -> None:
    monkeypatch.setattr(verifying, "ROWS_AT_ONCE", 1)
    found = await rebuilds.verify(sold, sample)
    assert (found.rows, found.drifted, found.not_judged) == (3, 0, 0)
    await rebuilds.harness.pool.execute("update tax_rates set rate = 0.16 where country = 'FR'")
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.taxed__g1 set seen = 7 where order_id = 'o-3'")
    found = await rebuilds.verify(sold, sample)
    assert (found.rows, found.drifted, found.not_judged) == (3, 1, 1)
    assert ([one.key for one in found.drifts], found.not_judged_keys) == (["o-3"], ["o-2"])


async def test_a_row_that_is_recomputed_looks_up_the_table_of_now(
    rebuilds: RebuildHarness, sold: type
) -> None:
    await rebuilds.harness.pool.execute("update tax_rates set rate = 0.16 where country = 'DE'")
    mended = await rebuilds.mend(sold, "o-1")
    assert mended.changed is not None
    assert await rows(rebuilds) == [("o-1", "DE=0.1600;" * 2, 0), *LIVE[1:]]


async def test_a_preview_says_which_differences_may_be_the_tables(
    rebuilds: RebuildHarness, sold: type
) -> None:
    assert (await preview(rebuilds, sold)).differ == 0
    await rebuilds.harness.pool.execute("update tax_rates set rate = 0.16 where country = 'DE'")
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.taxed__g1 set seen = 7 where order_id = 'o-3'")
    found = await preview(rebuilds, sold)
    assert (found.differ, found.looked_up) == (3, 2)


async def test_an_event_that_failed_for_its_row_is_previewed_with_the_row_of_now(
    rebuilds: RebuildHarness, sold: type
) -> None:
    await rebuilds.harness.pool.execute("insert into tax_rates values ('XX', null)")
    await rebuilds.harness.publish(Sold(("XX",), 1), "o-5", 1)
    await rebuilds.harness.settle(sold)
    assert [one.mended for one in (await preview(rebuilds, sold)).heads] == [False]
    await rebuilds.harness.pool.execute("update tax_rates set rate = 0.5 where country = 'XX'")
    assert [one.mended for one in (await preview(rebuilds, sold)).heads] == [True]


async def test_what_a_build_cannot_look_up_is_told_and_nothing_is_swapped(
    rebuilds: RebuildHarness, sold: type
) -> None:
    await rebuilds.harness.pool.execute("drop table tax_rates")
    for work in (rebuilds.rebuild(sold), rebuilds.verify(sold), rebuilds.mend(sold, "o-1")):
        with pytest.raises(
            LookupUnavailable, match=r"Taxed cannot look up public.tax_rates: .* Make it as TaxRate"
        ):
            await work
    assert await rows(rebuilds) == LIVE

"""An event that ends its process while it is read, before anything of it is marked."""

from __future__ import annotations

import signal

import pytest
from tests.integration.process.test_peers import environment, quick
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.decoding_app import notes
from tests.support.process import projectionist
from tests.support.shop import OrderNoted
from tests.support.waiting import eventually

from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio

STARTS = 10
ACT = Act("ann", "it lacked a version")


async def until_quarantined(live: ConsumerHarness, cls: type) -> None:
    """Start one process after the other until one of them lives, with something in quarantine that nobody reads."""
    for _ in range(STARTS):
        async with projectionist("run", "tests.support.decoding_app:app", env=environment(live)) as child:

            async def over() -> bool:
                kept = await inspection.count(live, "quarantine", state="quarantined", reason="fault")
                return bool(kept) or child.has_ended

            await eventually(over)
            if not child.has_ended:
                await live.settled(cls)
                child.signal(signal.SIGTERM)
                assert (await child.ended()).code == 0
                break
            assert (await child.ended()).code == -signal.SIGKILL
    else:
        raise AssertionError(f"{STARTS} processes were not enough")


async def test_an_event_that_kills_its_readers_is_quarantined_and_all_others_are_applied(
    live: ConsumerHarness,
) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    quick(live)
    await live.publish(OrderNoted("kill"), "bad", 1)
    await live.publish(OrderNoted("x"), "bad", 2)
    for number in range(3):
        await live.publish(OrderNoted("x"), f"g{number}", 1)

    await until_quarantined(live, cls)

    assert await live.value("select array_agg(note order by note) from notes") == ["g0", "g1", "g2"]
    assert await inspection.rows(live, "quarantine", "reason", "detail") == [
        ("fault", "every try of reading it ended the process")
    ]
    assert await inspection.count_marks(live, "crash_marks") == 1  # by this code it is read no more


async def test_an_edit_that_kills_its_readers_is_read_no_more_until_it_is_edited_again(
    live: ConsumerHarness,
) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    quick(live)
    seq = await live.publish(OrderNoted("x"), "bad", None)
    await live.publish(OrderNoted("x"), "g0", 1)
    await live.settle(cls)

    async with live.quarantine(cls) as verbs:
        await verbs.edit((1, seq), ACT, headers={"ce-aggregateversion": "1"}, data=b'{"text": "kill"}')
    await until_quarantined(live, cls)
    assert await inspection.rows(live, "quarantine", "reason", "due") == [("fault", None)]

    async with live.quarantine(cls) as verbs:
        await verbs.edit((1, seq), ACT, headers={"ce-aggregateversion": "1"}, data=b'{"text": "mended"}')
    async with projectionist("run", "tests.support.decoding_app:app", env=environment(live)) as child:
        await live.value_of("select array_agg(note order by note) from notes", ["bad", "g0"])
        child.signal(signal.SIGTERM)
        assert (await child.ended()).code == 0
    assert await inspection.count_marks(live, "crash_marks") == 0

"""What goes on beside the pages ends with the console; whoever stops it hears whether it has ended."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from projectionist.console.background_work import BackgroundWorks
from projectionist.core.operator import Act, NotThere

ACT = Act("ann", "in doubt")
pytestmark = pytest.mark.asyncio


async def test_all_of_it_ends_with_the_console() -> None:
    works, begun = BackgroundWorks(), [threading.Event() for _ in range(4)]

    async def going(number: int, _: object) -> None:
        begun[number].set()
        await asyncio.Event().wait()

    each = [works.begin("rebuild", f"Consumer{n}", ACT, partial(going, n)) for n in range(4)]
    for one in begun:
        await asyncio.to_thread(one.wait)
    await works.stop()
    assert [one.is_running for one in each] == [False] * 4
    assert all(isinstance(one.failure, NotThere) for one in each)


async def test_what_does_not_end_is_not_said_to_have_ended() -> None:
    works, deaf = BackgroundWorks(), threading.Event()

    async def hold(_: object) -> None:
        begun.set()
        deaf.wait()  # holds up its loop, as a step without an await does

    begun = threading.Event()
    work = works.begin("rebuild", "Orders", ACT, hold)
    await asyncio.to_thread(begun.wait)
    assert not await work.stop(within_s=0.01)
    assert work.is_running
    deaf.set()
    while not await work.stop():
        pass
    assert not work.is_running

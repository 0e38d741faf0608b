"""Look-ups of names: slow ones keep nobody else waiting, and nobody's thread is counted twice."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.support.waiting import HANG_S, eventually

from projectionist.outbox.providers import Outcome, ProviderContext, Request
from projectionist.outbox.providers.host_names import Names, SlowName, TooManyLookups
from projectionist.outbox.providers.http import Http, HttpSettings
from projectionist.outbox.providers.runtime import attempt

pytestmark = pytest.mark.asyncio


class Silent:
    """An operating system whose answers for `slow…` come when the gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: Counter[str] = Counter()

    def getaddrinfo(self, host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        self.asked[host] += 1
        if host.startswith("slow"):
            self.gate.wait(30)
        if host.startswith("absent"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(0, 0, 0, "", (address, 0)) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")]


async def is_true(look: Callable[[], object]) -> bool:
    return bool(look())


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    system = Silent()
    monkeypatch.setattr(socket, "getaddrinfo", system.getaddrinfo)
    yield system
    system.gate.set()


async def test_slow_names_keep_no_thread_from_a_good_one(silent: Silent) -> None:
    resolve = Names(within_s=0.05)
    slow = [asyncio.create_task(resolve(f"slow{n}.test", 443)) for n in range(60)]
    assert set(map(type, await asyncio.gather(*slow, return_exceptions=True))) == {SlowName}
    assert await asyncio.wait_for(resolve("good.test", 443), HANG_S) == ["192.0.2.1", "192.0.2.2"]
    with pytest.raises(socket.gaierror):
        await resolve("absent.test", 443)


async def test_a_name_has_one_look_up_however_many_ask_and_nothing_is_kept_after_it(silent: Silent) -> None:
    resolve = Names()
    asking = [asyncio.create_task(resolve("slow.test", port)) for port in range(20)]
    await eventually(partial(is_true, lambda: silent.asked))
    asking[0].cancel()
    silent.gate.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [["192.0.2.1", "192.0.2.2"]] * 19
    assert silent.asked == {"slow.test": 1}
    await resolve("slow.test", 443)
    assert silent.asked == {"slow.test": 2}


async def test_names_that_were_slow_leave_room_for_others(silent: Silent) -> None:
    resolve = Names(most=2, slow_most=1, within_s=0.05, room_s=0.05)
    hosts = ["slow1.test", "slow2.test"]
    for host in hosts:
        with pytest.raises(SlowName):
            await resolve(host, 443)
    with pytest.raises(TooManyLookups):
        await resolve("good.test", 443)
    silent.gate.set()
    await eventually(partial(is_true, lambda: not resolve._running))
    silent.gate.clear()
    again = await asyncio.gather(*(resolve(host, 443) for host in hosts), return_exceptions=True)
    assert set(map(type, again)) == {SlowName, TooManyLookups}
    assert await resolve("good.test", 443)


async def test_a_look_up_that_nobody_waits_for_any_longer_takes_no_room(silent: Silent) -> None:
    resolve = Names(most=1, within_s=0.05, room_s=0.05)
    with pytest.raises(SlowName):
        await resolve("slow1.test", 443)
    with pytest.raises(TooManyLookups):
        await resolve("slow2.test", 443)
    silent.gate.set()
    assert await resolve("good.test", 443)
    assert silent.asked == {"slow1.test": 1, "good.test": 1}


async def test_a_look_up_without_room_is_not_the_destinations_fault(silent: Silent) -> None:
    resolve = Names(most=1, within_s=0.05, room_s=0.05)
    outcomes = []
    for host in ("slow.test", "good.test"):
        pay = Http("pay", HttpSettings(url=f"https://{host}/"), ProviderContext(resolve=resolve))
        request = Request(key="k", provider="pay", destination="pay", intent="Charge", body=b"{}")
        reply = await attempt(pay, msgspec.structs.replace(request, wire=pay.render(request)))
        outcomes.append((reply.outcome, reply.reason, reply.ours))
        await pay.close()
    assert outcomes == [
        (Outcome.NOT_SENT, "the name was not found in time", False),
        (Outcome.NOT_SENT, "too many names are being looked up", True),
    ]


async def test_a_look_up_for_which_the_system_has_no_thread_is_not_the_destinations_fault() -> None:
    """Nothing of the request is wrong: it is sent when there is a thread again."""
    before = threading.stack_size(2**46)  # more than there is
    try:
        with pytest.raises(TooManyLookups):
            await Names()("good.test", 443)
    finally:
        threading.stack_size(before)

"""Processes that are ended, or put to sleep, at each step out of themselves, and how their story comes to its end."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.support.consumer_harness import ConsumerHarness, harness
from tests.support.io_steps import STEP, Steps
from tests.support.ledger import assert_ledger
from tests.support.outbox import Outbox, outbox
from tests.support.process import Child, projectionist
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Servers, own_ground
from tests.support.shop import shop
from tests.support.stub_provider import StubProvider, stub_provider
from tests.support.sweep_app import APP, POISON
from tests.support.waiting import HANG_S, cancelled

from projectionist.outbox.providers import Http, ProviderContext
from projectionist.outbox.providers.http import HttpSettings


class Scene(msgspec.Struct):
    """What one run of a chapter has: servers' harness, provider, folder, and the shop's classes."""

    live: ConsumerHarness
    stub: StubProvider
    outbox: Outbox
    folder: Path
    classes: SimpleNamespace

    @property
    def builders(self) -> RebuildHarness:
        """The harness with builders."""
        return RebuildHarness(self.live)

    def running(self) -> AbstractAsyncContextManager[object]:
        """Consumers at work in this process."""
        policy = msgspec.structs.replace(self.live.policy, ack_wait_s=1)
        return self.live.running(self.classes.Orders, self.classes.Spend, policy=policy)

    async def settle(self) -> None:
        """Have consumers in this process settle all. What sleeps outside of a batch may hold them up for 30 s."""
        async with self.running():
            await self.live.settled(self.classes.Orders, self.classes.Spend, seconds=2 * HANG_S)

    async def relay(self) -> None:
        """Have a relay in this process send all there is."""
        await self.outbox.end_leases()
        await self.outbox.make_due()
        settings = msgspec.convert(self.provider(), HttpSettings)
        provider = Http("email", settings, ProviderContext(environ={}))
        await provider.open()
        await self.live.value("select count(*) from {s}.intents")  # which unpacks staged intents
        async with self.outbox.relaying(provider):
            await self.outbox.all_become("sent")

    def environment(self, revision: int = 1, **settings: str) -> dict[str, str]:
        """Return what a process needs to know; `settings` go by their names in it."""
        live = self.live
        chosen = {
            "postgres__url": live.database,
            "nats__url": live.servers.nats_url,
            "run__heartbeat_s": "0.2",
            "consumer_defaults__ack_wait_s": "1",
            "consumer_defaults__late_s": "0",
            "consumer_defaults__gap_fetch_delay_ms": "50",
            "batch__max_rows": "4",
            "retention__archive": "files",
            "retention__archive_folder": str(self.folder / "archive"),
            **settings,
        }
        return {
            "SWEEP_STREAM": live.stream.name,
            "SWEEP_REVISION": str(revision),
            **{f"PROJECTIONIST_{name.upper()}": value for name, value in chosen.items()},
        }

    def provider(self, timeout_s: float = 5) -> dict[str, Any]:
        """Return the settings of the provider."""
        return {
            "url": self.stub.url(),
            "private_hosts": ["127.0.0.1"],
            "profile": "stripe-v2",
            "timeout_s": timeout_s,
            "retry": {"initial_s": 0.01, "maximum_s": 0.1},
        }

    def configure(self, timeout_s: float = 5) -> None:
        """Write the settings of the provider, which the environment cannot say."""
        chosen = self.provider(timeout_s)
        lines = [f"{name} = {json.dumps(value)}" for name, value in chosen.items() if name != "retry"]
        retry = "retry = { initial_s = 0.01, maximum_s = 0.1 }"
        text = "\n".join(["[providers.email]", *lines, retry])
        (self.folder / "projectionist.toml").write_text(text)


Act = Callable[[Scene], Awaitable[None]]


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a story: what comes before it, what it is, and how somebody else ends what it leaves."""

    name: str
    prepare: Act
    command: tuple[str, ...]
    finish: Act
    until: Act | None = None
    """When it has done its work, and is asked to stop; None for a command, which ends by itself."""
    settings: dict[str, str] = {}
    revision: int = 1
    code: int = 0
    """What it exits with where nothing disturbs it."""
    sends: bool = False
    """Whether its intents are all sent at its end."""
    sleeps: bool = False
    """Whether it is also put to sleep, and wakes when another has done its work: what others take over from by a lease.
    Of a command's session they say that it is still at work."""


class Cut(msgspec.Struct, frozen=True):
    """Where a process is cut off: at a step, by its name, the n-th time that it comes to it."""

    step: str
    nth: int = 1
    sleeps: bool = False

    def __str__(self) -> str:
        how = "put to sleep" if self.sleeps else "killed"
        return f"{how} at {self.step!r}, time {self.nth}"


class Ran(msgspec.Struct, frozen=True):
    """One run: how often its process came to each step, and whether it was cut off where it was to be."""

    steps: Mapping[str, int]
    cut: bool


async def run_chapter(servers: Servers, chapter: Chapter, cut: Cut | None = None) -> Ran:
    """Live through a chapter, whose process may be cut off; bring the story to its end, and judge what is there."""
    async with opened(servers) as scene:
        await chapter.prepare(scene)
        ran = await _cut_off(scene, chapter, cut)
        await assert_ledger(scene.live, (POISON,), scene.stub if chapter.sends else None)
        await scene.live.assert_sound()
        return ran


async def _cut_off(scene: Scene, chapter: Chapter, cut: Cut | None) -> Ran:
    postgres, nats = (urlsplit(url).port or 0 for url in (scene.live.database, scene.live.servers.nats_url))
    wanted = cut or Cut("")
    steps = Steps(
        postgres=postgres,
        nats=nats,
        folder=str(scene.folder),
        at=wanted.step,
        nth=wanted.nth,
        sleeps=wanted.sleeps,
    )
    env = scene.environment(chapter.revision, **chapter.settings)
    words = [word.replace("APP", APP) for word in chapter.command]
    async with projectionist(*words, cwd=scene.folder, env=env, steps=steps) as child:
        came = await _came_to(scene, chapter, child, cut)
        if came and cut is not None and not cut.sleeps:
            assert (await child.ended()).code == -signal.SIGKILL
        await chapter.finish(scene)
        if came and cut is not None and cut.sleeps:
            child.signal(signal.SIGCONT)
            await _awake(scene, chapter, child)
            await chapter.finish(scene)
        names = {
            name.removeprefix(STEP): times for name, times in child.announced.items() if name.startswith(STEP)
        }
        return Ran(names, came)


async def _came_to(scene: Scene, chapter: Chapter, child: Child, cut: Cut | None) -> bool:
    """Wait for the cut, or for the end of the chapter; return whether the cut came first."""
    stepping = asyncio.create_task(_stepped(child, cut))
    ending = asyncio.create_task(child.ended(seconds=2 * HANG_S))
    working = asyncio.ensure_future(
        chapter.until(scene) if chapter.until else child.ended(seconds=2 * HANG_S)
    )
    try:
        await asyncio.wait({stepping, ending, working}, return_when=asyncio.FIRST_COMPLETED)
        if not stepping.done() and not child.has_ended:
            await working
            child.signal(signal.SIGTERM)
        if not stepping.done():
            await asyncio.wait({stepping, ending}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({stepping}, timeout=0.2)  # what it wrote last may still be in the pipe
        if stepping.done():
            return True
        ended = await ending
        assert ended.code == chapter.code, f"{ended.code}: {ended.out}{ended.err}"
        return False
    finally:
        await cancelled(stepping, ending)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _stepped(child: Child, cut: Cut | None) -> None:
    """Return when the process has come to the cut, which it announces before it is cut off; without one, never."""
    if cut is None:
        await asyncio.Event().wait()
    else:
        await child.announces(STEP + cut.step, cut.nth)


async def _awake(scene: Scene, chapter: Chapter, child: Child) -> None:
    """What slept goes on: it ends in order, or because its work is somebody else's now."""
    if chapter.until is not None:
        await chapter.until(scene)
        child.signal(signal.SIGTERM)
    ended = await child.ended()
    # It may have been asked to stop before it slept: then it is asked for the second time.
    assert ended.code in (0, 1, 3, -signal.SIGTERM), f"{ended.code}: {ended.out}{ended.err}"
    assert "Traceback" not in ended.err, ended.err


@asynccontextmanager
async def opened(servers: Servers) -> AsyncIterator[Scene]:
    """What a chapter needs, on a database and a stream of its own."""
    async with own_ground(servers) as (database, stream):
        with tempfile.TemporaryDirectory() as folder:
            async with (
                harness(servers, database, stream) as live,
                stub_provider() as stub,
                outbox(database) as box,
            ):
                classes = shop(stream)
                classes.trouble.poison.add(POISON)
                scene = Scene(live, stub, box, Path(folder), classes)
                scene.configure()
                yield scene

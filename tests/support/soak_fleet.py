"""The processes of a soak: runners and relays behind gateways, started again where they end, as a platform would."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from tests.support.gateway import Gateway
from tests.support.process import Child, projectionist
from tests.support.soak_app import APP, digests
from tests.support.sweep import Scene
from tests.support.waiting import eventually

RUNNERS, RELAYS = 2, 2
PROVIDER_S = 1.0
"""How long a call of the provider may take."""
BEGUN = {"run": ("worker.running", 2), "relay": ("relay.running", 1)}
"""What a process announces, and how often, once it is at work."""


class Worker(msgspec.Struct):
    """One process of the fleet."""

    command: str
    child: Child
    own: AsyncExitStack
    """Ends it, whatever it does."""


class Fleet:
    """Runners and relays, and what they have announced, those that are gone too."""

    def __init__(
        self, scene: Scene, postgres: Gateway, nats: Gateway, *, store_first: bool, plant: str
    ) -> None:
        self._scene, self._postgres, self._nats, self._plant = scene, postgres, nats, plant
        self._digests = digests(0)
        self._gone: Counter[str] = Counter()
        self.workers: list[Worker] = []
        self.ended: list[str] = []
        """What those wrote at last that ended by themselves."""
        scene.configure(PROVIDER_S)
        if store_first:
            with (scene.folder / "projectionist.toml").open("a") as file:
                file.write("\n[consumers.Spend]\nack = 'after-store'\n")

    @property
    def runners(self) -> list[Worker]:
        """Return the processes that run consumers."""
        return [one for one in self.workers if one.command == "run"]

    @property
    def relays(self) -> list[Worker]:
        """Return the processes that send intents."""
        return [one for one in self.workers if one.command == "relay"]

    @property
    def announced(self) -> Counter[str]:
        """Return how often all processes together have announced what."""
        counts = Counter(self._gone)
        for one in self.workers:
            counts.update(one.child.announced)
        return counts

    async def begin(self) -> None:
        """Start all, and wait until they are at work."""
        for command, times in (("run", RUNNERS), ("relay", RELAYS)):
            for _ in range(times):
                await self.start(command)
        await self.at_work()

    async def dies(self, command: str, moment: str, time: int) -> None:
        """Start a process that is killed when it comes to a moment for that time, and wait for its end."""
        await self.over(await self.start(command, {moment: time}))
        self._gone[f"killed {moment}"] += 1

    async def start(self, command: str, kill_at: Mapping[str, int] | None = None) -> Worker:
        """Start a process, of the release that is deployed."""
        own = AsyncExitStack()
        process = projectionist(
            command, APP, cwd=self._scene.folder, env=self._environment(), kill_at=kill_at
        )
        worker = Worker(command, await own.enter_async_context(process), own)
        self.workers.append(worker)
        return worker

    async def stop(self, worker: Worker, how: signal.Signals = signal.SIGTERM) -> None:
        """End a process, and wait until it is over."""
        worker.child.signal(how)
        await self.over(worker)

    async def over(self, worker: Worker) -> None:
        """Wait until a process has ended, and keep what it has announced."""
        ended = await worker.child.ended()
        self.workers.remove(worker)
        if "Traceback" in ended.err:
            self.ended.append(f"{worker.command} ended with {ended.code}: {ended.err[-2000:]}")
        await worker.own.aclose()
        self._gone.update(worker.child.announced)

    async def at_work(self) -> None:
        """Wait until all are at work; those that have ended by themselves are started again."""

        async def working() -> bool:
            await self.mend()
            for one in self.workers:
                name, times = BEGUN[one.command]
                assert one.child.announced[name] >= times, f"{one.command} has not begun:\n{one.child.err}"
            return True

        await eventually(working)

    async def mend(self) -> None:
        """Start again what has ended by itself."""
        for one in [one for one in self.workers if one.child.has_ended]:
            self._gone["process.ended by itself"] += 1
            await self.over(one)
            await self.start(one.command)

    async def deploy(self, release: int, *, poisoned: bool) -> None:
        """Start runners of another release, then stop those of before."""
        before = self.runners
        self._digests = digests(release, poisoned=poisoned)
        for _ in before:
            await self.start("run")
        await self.at_work()
        for one in before:
            await self.stop(one)

    @asynccontextmanager
    async def until(self, name: str, more: int = 1) -> AsyncIterator[None]:
        """Wait, after the block, until all together have announced something so many times since it began."""
        wanted = self.announced[name] + more

        async def heard() -> bool:
            found = self.announced
            assert found[name] >= wanted, f"{name!r} announced {found[name]} times, not {wanted}: {found}"
            return True

        yield
        await eventually(heard)

    async def end(self) -> None:
        """Ask all to stop, and wait for it."""
        await asyncio.gather(*(self.stop(one) for one in [*self.workers]))

    async def kill(self) -> None:
        """End what is still there."""
        for one in self.workers:
            await one.own.aclose()

    def _environment(self) -> Mapping[str, str]:
        retry = {"initial_s": 0.05, "maximum_s": 1.0, "attempts": 3}
        settings = {
            "postgres__url": self._postgres.url,
            "postgres__statement_s": "2",
            "postgres__lock_s": "2",
            "nats__url": self._nats.url,
            "run__heartbeat_s": "0.5",
            "run__lease_s": "2",
            "batch__max_rows": "50",
            "telemetry__allow_unmonitored": "true",
            "consumer_defaults__ack_wait_s": "2",
            "consumer_defaults__breaker__open_s": "0.5",
            **{f"consumer_defaults__retry__{name}": json.dumps(value) for name, value in retry.items()},
        }
        return {
            **self._scene.environment(1, **settings),
            "SOAK_STREAM": self._scene.live.stream.name,
            "SOAK_DIGESTS": self._digests,
            "SOAK_PLANT": self._plant,
        }

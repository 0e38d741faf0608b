"""Starts workers, starts again those that end, and answers for all of them until it is told to stop."""

from __future__ import annotations

import logging
import random
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread

from projectionist.core.errors import ProjectionistError
from projectionist.core.stopping import Stop
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.testpoints import announce
from projectionist.ops.cli.process_telemetry import HealthListener
from projectionist.ops.workers import worker_end
from projectionist.ops.workers.scrape_merge import merged
from projectionist.ops.workers.worker_end import WorkerEnd
from projectionist.runner.process.watchdog import watch

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from projectionist.core.settings.settings import Run, Settings
    from projectionist.core.telemetry.health_server import Health
    from projectionist.core.telemetry.otel_setup import Scrape
    from projectionist.ops.workers.worker import Worker

log = logging.getLogger("projectionist.ops")

BESIDE_S = 10.0
"""What a worker has to stop beyond `shutdown_s`, which it measures for itself, before it is told once more."""
LAST_S = 5.0

Start = Callable[[int], Awaitable["Worker"]]


class WorkersError(ProjectionistError):
    """No worker is left, and none would be of use if it were started again."""


class _Slot:
    """The place of one worker, which others take after it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: Worker | None = None
        self.last: WorkerEnd | None = None
        """How its last try ended."""
        self.row = 0
        self.begun = anyio.Event()

    async def note_begun(self, worker: Worker) -> None:
        await worker.line.begun.wait()
        self.begun.set()

    def hindrances(self) -> list[str]:
        if self.worker is not None:
            return [f"worker {self.number}: {why}" for why in self.worker.hindrances]
        told = "starting" if self.last is None else self.last.told
        return [f"worker {self.number}: {told}"]

    def superseded(self) -> list[str]:
        found = [] if self.worker is None else self.worker.superseded
        return [f"worker {self.number}: {why}" for why in found]

    @property
    def said(self) -> WorkerEnd | None:
        """Return how its last try ended, unless the one that runs now has been ready."""
        return self.last if self.worker is None or self.worker.line.ready_at is None else None


class WorkerSupervisor:
    """So many workers, each started again when it ends, ever later where that happens again and again."""

    def __init__(self, many: int, start: Start, limits: Run) -> None:
        self._slots = [_Slot(number) for number in range(1, many + 1)]
        self._start, self._limits = start, limits
        self._stopping, self._over = anyio.Event(), anyio.Event()
        self._failed: WorkersError | None = None

    async def run(self, health: Health) -> None:
        """Run until SIGTERM or SIGINT, which every worker gets; raises WorkersError where none can begin."""
        health.troubles = lambda: [why for slot in self._slots for why in slot.hindrances()]
        health.superseded = lambda: [why for slot in self._slots for why in slot.superseded()]
        stop = Stop(self._ask, self._end_late, self._limits.shutdown_s + BESIDE_S)
        async with stop.heard(signals=True, begun=partial(announce, "workers.supervised")) as tasks:
            tasks.start_soon(watch, self._limits.watchdog_timeout_s)
            tasks.start_soon(self._note_begun, health)
            async with anyio.create_task_group() as slots:
                for slot in self._slots:
                    slots.start_soon(self._keep, slot)
            self._over.set()
        announce("workers.stopped")
        if self._failed is not None:
            raise self._failed

    def scrape(self, own: Scrape) -> bytes:
        """Return the metrics of this process and of all workers as one scrape. To be called on a thread of the loop."""
        told = anyio.from_thread.run(self._scrapes)
        return merged({"": own().decode(), **told}).encode()

    async def _scrapes(self) -> dict[str, str]:
        found: dict[str, str] = {}

        async def ask(worker: Worker) -> None:
            found[str(worker.number)] = await worker.line.metrics()

        async with anyio.create_task_group() as asking:
            for worker in self._running():
                asking.start_soon(ask, worker)
        return dict(sorted(found.items()))

    async def _note_begun(self, health: Health) -> None:
        for slot in self._slots:
            await slot.begun.wait()
        health.started = True
        announce("workers.begun")

    async def _keep(self, slot: _Slot) -> None:
        while not self._stopping.is_set():
            ending = await self._run_once(slot)
            if self._stopping.is_set():
                return
            slot.last, slot.row = ending, worker_end.row_of(ending, slot.row)
            if worker_end.all_hopeless([one.said for one in self._slots]):
                self._give_up(slot, ending)
                return
            await self._rest(slot, ending)

    async def _run_once(self, slot: _Slot) -> WorkerEnd:
        try:
            worker = await self._start(slot.number)
        except OSError as error:  # no room for another process now: the others have theirs, and keep it
            return WorkerEnd(0, unstarted=error.strerror or type(error).__name__)
        try:
            slot.worker = worker
            log.info("worker %d is process %d", slot.number, worker.pid)
            if self._stopping.is_set():  # it was asked to while this one was being started
                worker.tell(signal.SIGTERM)
            announce("workers.started")
            async with anyio.create_task_group() as beside:
                beside.start_soon(slot.note_begun, worker)
                ending = await worker.over()
                beside.cancel_scope.cancel()
        finally:
            await worker.gone()
            slot.worker = None
        announce("workers.ended")
        return ending

    async def _rest(self, slot: _Slot, ending: WorkerEnd) -> None:
        pause_s = worker_end.pause_s(slot.row, random.random())  # noqa: S311  spreads load, guards nothing
        log.warning("worker %d %s; it is started again in %.1f s", slot.number, ending.told, pause_s)
        metrics.add(instruments.WORKER_RESTARTS, 1, {names.WORKER: str(slot.number)})
        announce("workers.resting")
        with anyio.move_on_after(pause_s):
            await self._stopping.wait()

    def _give_up(self, slot: _Slot, ending: WorkerEnd) -> None:
        self._failed = WorkersError(
            f"no worker can begin: the last try of worker {slot.number} {ending.told}, as those of all others did",
            remedy="Its error stands above. Waiting would not mend it",
        )
        self._ask()

    def _running(self) -> list[Worker]:
        return [slot.worker for slot in self._slots if slot.worker is not None]

    def _ask(self) -> bool:
        """Ask all workers to stop; whether the rest ends by itself, as it does."""
        self._stopping.set()
        for worker in self._running():
            worker.tell(signal.SIGTERM)
        return True

    async def _end_late(self) -> None:
        """Have all workers stop at once, and after a moment end those that have not."""
        for worker in self._running():
            worker.tell(signal.SIGTERM)
        with anyio.move_on_after(LAST_S):
            await self._over.wait()
        for worker in self._running():
            log.warning("worker %d (process %d) does not stop: killing it", worker.number, worker.pid)
            worker.tell(signal.SIGKILL)


class SupervisorHealth:
    """Answers at one address for a supervisor and all its workers."""

    def __init__(self, supervisor: WorkerSupervisor, settings: Settings) -> None:
        self._supervisor, self._settings = supervisor, settings

    async def __call__(self, health: Health, scrape: Scrape | None, *, task_status: TaskStatus[None]) -> None:
        """Answer whoever asks."""
        told = None if scrape is None else partial(self._supervisor.scrape, scrape)
        await HealthListener(self._settings)(health, told, task_status=task_status)

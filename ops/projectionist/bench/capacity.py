"""What a load would take, on paper: a simulation of processes, cores, ways and disks, fed with measured costs.

`python -m projectionist.bench.capacity` prints the table of docs/scaling.md. Each batch in flight goes from stage to
stage: its process, which is one thread on one core, the way to the database, a core there, and back, statement by
statement; then it waits for the disk, and another takes its place. Times are means: nothing is drawn.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from typing import NamedTuple

BATCH = 1_000
STATEMENTS = 17
IN_FLIGHT = 2
"""Batches of one consumer that a process has open at once."""
PER_PROCESS = 100
"""So many batches of each process are settled, and the first quarter of them is not counted."""


class Costs(NamedTuple):
    """What an event takes: microseconds of processor time and bytes of log (docs/benchmarks.md, live); of a batch,
    milliseconds until the disk has it."""

    runner_us: float = 22.8
    postgres_us: float = 17.9
    nats_us: float = 6.0
    wal_bytes: float = 893.0
    commit_ms: float = 1.0


MEASURED = Costs()


class Machines(NamedTuple):
    """Machines: how many processes on how many cores, the cores of one database, and the way between them."""

    processes: int
    runner_cores: int
    postgres_cores: int = 0
    """0: all of it, the broker too, shares the cores of the runners, as where the costs were measured."""
    trip_ms: float = 0.05


class Stage(NamedTuple):
    """A stretch that a batch spends with one server of each of these at once; with none it only waits."""

    servers: tuple[list[float], ...]
    """By server, from when on it is free."""
    seconds: float


def rate(machines: Machines, costs: Costs = MEASURED) -> float:
    """Return how many events a second these machines settle once they run evenly. Pure."""
    cores = [0.0] * machines.runner_cores
    database = [0.0] * machines.postgres_cores if machines.postgres_cores else cores
    batches = [
        stages
        for thread in ([0.0] for _ in range(machines.processes))
        for stages in [_stages(machines, costs, thread, cores, database)] * IN_FLIGHT
    ]
    settled = _run(batches, PER_PROCESS * machines.processes)
    warm = len(settled) // 4
    return (len(settled) - 1 - warm) * BATCH / (settled[-1] - settled[warm])


def wal_mb_per_s(events_per_s: float, costs: Costs = MEASURED) -> float:
    """Return what so many events write into the log of their database. Pure."""
    return events_per_s * costs.wal_bytes / 1e6


def _stages(
    machines: Machines, costs: Costs, thread: list[float], cores: list[float], database: list[float]
) -> list[Stage]:
    """Return the way of one batch."""
    own = costs.runner_us * BATCH / STATEMENTS / 1e6
    theirs = costs.postgres_us * BATCH / STATEMENTS / 1e6
    trip, stages = Stage((), machines.trip_ms / 2e3), list[Stage]()
    if not machines.postgres_cores:
        stages.append(Stage((cores,), costs.nats_us * BATCH / 1e6))
    for _ in range(STATEMENTS):
        stages += Stage((thread, cores), own), trip, Stage((database,), theirs), trip
    return [*stages, Stage((), costs.commit_ms / 1e3)]


def _run(batches: Sequence[list[Stage]], most: int) -> list[float]:
    """Return when batches were settled, until so many are; each begins anew when it is."""
    settled = list[float]()
    due = [(0.0, number, 0) for number in range(len(batches))]
    while len(settled) < most:
        now, number, place = heapq.heappop(due)
        if place == len(batches[number]):
            settled.append(now)
            place = 0
        servers, seconds = batches[number][place]
        chosen = [(free, free.index(min(free))) for free in servers]
        over = max([now, *(free[one] for free, one in chosen)]) + seconds
        for free, one in chosen:
            free[one] = over
        heapq.heappush(due, (over, number, place + 1))
    return settled


PLANS = {
    "as measured: all on 2 cores": Machines(1, 2),
    "1 process, 1 core of PostgreSQL": Machines(1, 1, 1),
    "2 processes, 1 core of PostgreSQL": Machines(2, 2, 1),
    "2 processes, 2 cores of PostgreSQL": Machines(2, 2, 2),
    "4 processes, 4 cores of PostgreSQL": Machines(4, 4, 4),
    "8 processes, 4 cores of PostgreSQL": Machines(8, 8, 4),
    "8 processes, 8 cores of PostgreSQL": Machines(8, 8, 8),
    "16 processes, 8 cores of PostgreSQL": Machines(16, 16, 8),
    "8 processes, 8 cores, another zone (1 ms)": Machines(8, 8, 8, trip_ms=1.0),
}


def table() -> str:
    """Return what each plan settles, as Markdown."""
    lines = ["| plan | events/s | log, MB/s |", "| --- | --- | --- |"]
    for name, plan in PLANS.items():
        found = rate(plan)
        lines.append(f"| {name} | {found:,.0f} | {wal_mb_per_s(found):.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")

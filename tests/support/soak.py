"""A soak: faults, one after the other, under load with several runners and relays; in the end the ledger judges.

`python -m tests.support.soak [MINUTES] [--seed SEED] [--json FILE]`, or `make soak MINUTES=60`. A round is every fault
once, in an order of its own, on a database and a stream of its own; what goes wrong ends the soak after its round. The
seed decides what is published, who is hit and how: `--seed` with the seed of a round lives through that one again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import msgspec
from tests.support import inspection, surroundings
from tests.support.gateway import gateway
from tests.support.ledger import read_ledger, violations
from tests.support.outbox import outbox
from tests.support.servers import Servers
from tests.support.soak_faults import FAULTS, Fault, Ground
from tests.support.soak_fleet import Fleet
from tests.support.soak_load import SoakLoad
from tests.support.soak_report import Recovered, Round, report, table
from tests.support.sweep import Scene, opened
from tests.support.waiting import HANG_S

SHORT_S = 30.0
"""How long the rest may take where something is stuck already."""
MARK = "/"
"""Divides the seed of a soak from the number of a round."""


async def run_round(
    servers: Servers,
    seed: str,
    faults: Sequence[Fault] = FAULTS,
    *,
    plant: str = "",
    patience_s: float = HANG_S,
) -> Round:
    """Live through these faults in the order of the seed, and judge what is there in the end.

    What is not settled `patience_s` after a fault counts as stuck.
    """
    random, began = Random(seed), time.monotonic()
    found = Round(seed=seed, store_first=random.random() < 0.5)
    async with opened(servers) as scene:
        await scene.live.migrate(scene.classes.Orders, scene.classes.Spend)
        async with _ground(scene, random, store_first=found.store_first, plant=plant) as ground:
            for fault in random.sample([*faults], len(faults)):
                if not await _recovers(ground, fault, found, patience_s):
                    break
            await _settle(scene, ground, found, seconds=SHORT_S if found.broken else patience_s)
            found.met = await _met(scene, ground)
            found.broken += ground.fleet.ended
        found.broken += await _judged(scene)
        found.events, found.messages = ground.load.events, ground.load.published
    found.seconds = time.monotonic() - began
    return found


@asynccontextmanager
async def _ground(scene: Scene, random: Random, *, store_first: bool, plant: str) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(gateway(scene.live.database))
        nats = await stack.enter_async_context(gateway(scene.live.servers.nats_url))
        fleet = Fleet(scene, postgres, nats, store_first=store_first, plant=plant)
        stack.push_async_callback(fleet.kill)
        load = SoakLoad(scene.live, scene.stub, Random(random.random()))
        stack.push_async_callback(load.end)
        await fleet.begin()
        load.begin()
        yield Ground(
            live=scene.live,
            fleet=fleet,
            load=load,
            plan=scene.stub.plan,
            postgres=postgres,
            nats=nats,
            random=random,
        )


async def _recovers(ground: Ground, fault: Fault, found: Round, patience_s: float) -> bool:
    """Have a fault happen under load; return whether all that was published before its end was settled."""
    name, seconds = fault.__name__.replace("_", " "), None
    try:
        async with ground.fleet.until("batch.acked", 5):
            pass
        await fault(ground)
        ended, before = time.monotonic(), ground.load.unsettled()
        await ground.fleet.mend()
        await ground.load.settled(before, patience_s)
        seconds = time.monotonic() - ended
    except AssertionError as error:
        found.broken.append(f"stuck at {name!r}: {error}")
    found.recovered.append(Recovered(name, seconds))
    _tell(f"{name}: {'stuck' if seconds is None else f'{seconds:.1f} s'}")
    return seconds is not None


async def _settle(scene: Scene, ground: Ground, found: Round, *, seconds: float) -> None:
    """Let the load come to its end, and the fleet settle and send all of it."""
    await ground.load.finish()
    try:
        await ground.load.settled(ground.load.unsettled(), seconds)
        await scene.live.settled(scene.classes.Orders, scene.classes.Spend, seconds=seconds)
        async with outbox(scene.live.database) as box:
            await box.all_become("sent", seconds)
    except AssertionError as error:
        found.broken.append(f"stuck in the end: {error}")
    await ground.fleet.end()


async def _judged(scene: Scene) -> list[str]:
    """Return what the ledger says, and what never may be in our tables."""
    found = violations(await read_ledger(scene.live, (), scene.stub))
    try:
        await scene.live.assert_sound()
    except AssertionError as error:
        found.append(f"unsound {error}")
    return found


async def _met(scene: Scene, ground: Ground) -> dict[str, int]:
    """Return how often what was announced, counted or done."""
    met = dict(ground.fleet.announced)
    for outcome, number in await inspection.rows(scene.live, "counters", "outcome", "n"):
        met[f"outcome {outcome}"] = met.get(f"outcome {outcome}", 0) + number
    met["commit.unanswered"] = ground.postgres.lost
    met["attempt again"] = len(scene.stub.seen) - len({one.key for one in scene.stub.seen})
    return met


def main(arguments: Sequence[str]) -> int:
    """Soak for so many minutes, print the table, and return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="soak", description="rotates faults under load")
    parser.add_argument("minutes", nargs="?", type=float, default=2.0)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="of a soak, or of one round of it")
    parser.add_argument("--json", type=Path, help="writes the report there too")
    asked = parser.parse_args(arguments)
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # a client complains of each server that is away
    _tell(f"seed {asked.seed}")
    with Servers() as servers:
        rounds = _rounds(servers, asked.seed, asked.minutes)
    found = report(
        rounds,
        [
            f"commit {surroundings.commit()[:8]}, {surroundings.today()}",
            f"{surroundings.servers()}, {surroundings.python()}",
            surroundings.machine(),
        ],
    )
    sys.stdout.write("\n" + table(found))
    if asked.json:
        asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    return 0 if found.is_clean else 1


def _rounds(servers: Servers, seed: str, minutes: float) -> list[Round]:
    rounds: list[Round] = []
    end = time.monotonic() + 60 * minutes
    while not rounds or (time.monotonic() < end and not rounds[-1].broken and MARK not in seed):
        each = seed if MARK in seed else f"{seed}{MARK}{len(rounds) + 1}"
        rounds.append(asyncio.run(run_round(servers, each)))
        last = rounds[-1]
        _tell(
            f"round {each}: {last.events:,} events, {len(last.recovered)} faults, {last.seconds:.0f} s,"
            f" {len(last.broken)} wrong"
        )
    return rounds


def _tell(text: str) -> None:
    sys.stdout.write(f"soak: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

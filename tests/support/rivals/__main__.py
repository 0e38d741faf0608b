"""All contenders under all hardships: `python -m tests.support.rivals [--seed SEED] [--page FILE]`, `make rivals`."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from pathlib import Path

from tests.support import surroundings
from tests.support.rivals.contenders import CONTENDERS
from tests.support.rivals.hardships import HARDSHIPS
from tests.support.rivals.report import page
from tests.support.rivals.trial import TrialResult, run_trial
from tests.support.servers import Servers

ORDERS, PATIENCE_S = 300, 60.0


async def run_all(
    servers: Servers, seed: str, contenders: list[str], hardships: list[str]
) -> list[TrialResult]:
    """Run every trial that is chosen, one after the other."""
    results = []
    for hardship in HARDSHIPS:
        for contender in CONTENDERS:
            if (contenders and contender.name not in contenders) or (
                hardships and hardship.name not in hardships
            ):
                continue
            if contender.has_own_store and (hardship.again or hardship.late):
                continue
            one = await run_trial(
                servers, contender, hardship, seed=seed, number=ORDERS, patience_s=PATIENCE_S
            )
            sys.stderr.write(f"{one}\n")
            results.append(one)
    return results


def main() -> None:
    """Run them, and write the page or the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--contender", action="append", default=[])
    parser.add_argument("--hardship", action="append", default=[])
    given = parser.parse_args()
    made_with = surroundings.commit()  # at the end it may be another
    with Servers() as servers:
        results = asyncio.run(run_all(servers, given.seed, given.contender, given.hardship))
    about = [
        f"commit {made_with}, seed {given.seed}, on {surroundings.today()}",
        f"{surroundings.servers()}, {surroundings.python()}",
        surroundings.machine(),
    ]
    text = page(results, about, PATIENCE_S)
    if given.page is None:
        sys.stdout.write(text)
    else:
        given.page.write_text(text)


if __name__ == "__main__":
    main()

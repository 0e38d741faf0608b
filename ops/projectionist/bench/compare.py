"""`bench compare OLD NEW`: two revisions of this checkout over one stream, by turns; what differs beyond the noise."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench.children import BenchError
from projectionist.bench.contenders import PRODUCT, Contender
from projectionist.bench.figures import costs_of, ratio, shown, spread
from projectionist.bench.live import rounds_of
from projectionist.ops.cli.output import table

if TYPE_CHECKING:
    from projectionist.bench.ground import Ground
    from projectionist.bench.live import Rounds
    from projectionist.bench.load import Load
    from projectionist.bench.trial import Cost

ROUNDS = 6
"""Without any difference all of six rounds lie on one side once in 32 times; all of three, once in four times."""

MEASURES: dict[str, Callable[[Cost], float | None]] = {
    "events/s": lambda cost: cost.rate,
    "µs an event, client": lambda cost: cost.steady.client if cost.steady else None,
    "µs an event, PostgreSQL": lambda cost: cost.steady.postgres if cost.steady else None,
    "µs an event, NATS": lambda cost: cost.steady.nats if cost.steady else None,
    "µs an event, all": lambda cost: cost.steady.total if cost.steady else None,
    "WAL bytes an event": lambda cost: cost.used.wal_bytes / cost.events if cost.used else None,
    "RSS MB": lambda cost: cost.rss_mb,
}


class MeasuredDifference(msgspec.Struct, frozen=True):
    """One measure of the new revision by that of the old one, round by round."""

    measure: str
    ratios: list[float]

    @property
    def is_beyond_noise(self) -> bool:
        """Return whether all rounds say the same: above the old one, or below it."""
        ups = sum(one > 1 for one in self.ratios)
        downs = sum(one < 1 for one in self.ratios)
        return len(self.ratios) >= ROUNDS and len(self.ratios) in (ups, downs)


def differences(rounds: Rounds) -> list[MeasuredDifference]:
    """Return each measure that is known of both, old and new of a round beside each other. Pure."""
    found = []
    for name, measure in MEASURES.items():
        pairs = zip(rounds.costs["old"], rounds.costs["new"], strict=False)
        known = [(measure(new), measure(old)) for old, new in pairs]
        ratios = [new / old for new, old in known if new is not None and old]
        if ratios:
            found.append(MeasuredDifference(name, ratios))
    return found


async def compare(
    ground: Ground, load: Load, revisions: Sequence[str], repeats: int, tell: Callable[[str], None]
) -> Rounds:
    """Run both over the same stream, by turns."""
    with checked_out(*revisions) as trees:
        part = {
            name: Contender(title=revision, arguments=PRODUCT, code=code)
            for (name, revision), code in zip(zip(("old", "new"), revisions, strict=True), trees, strict=True)
        }
        tell(f"publishing {load.events:,} events")
        await ground.publish(load)
        return await rounds_of({name: (ground, load, one) for name, one in part.items()}, repeats, tell)


@contextmanager
def checked_out(*revisions: str) -> Iterator[list[str]]:
    """Yield where the modules of each revision are found, as PYTHONPATH has it."""
    with TemporaryDirectory() as folder:
        yield [_unpacked(revision, Path(folder) / str(number)) for number, revision in enumerate(revisions)]


def _unpacked(revision: str, folder: Path) -> str:
    """Unpack the sources of a revision; return the parts of the project that lie in it."""
    try:
        ran = subprocess.run(  # noqa: S603  a revision may not begin with a dash
            ["git", "archive", "--format=tar", "--end-of-options", revision],  # noqa: S607
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise BenchError(f"git cannot be run: {error}", remedy="Install git") from error
    if ran.returncode:
        text = ran.stderr.decode("utf-8", "replace").strip()
        raise BenchError(
            f"the sources of {revision} cannot be had: {text}",
            remedy="Run it at the top of a checkout of Projectionist, with two revisions that it knows",
        )
    with tarfile.open(fileobj=io.BytesIO(ran.stdout)) as archive:
        archive.extractall(folder, filter="data")
    parts = sorted(str(found.parent) for found in folder.glob("*/projectionist") if found.is_dir())
    if not parts:
        raise BenchError(
            f"{revision} holds no sources of Projectionist", remedy="Run it at the top of a checkout"
        )
    return os.pathsep.join(parts)


def document(rounds: Rounds) -> dict[str, Any]:
    """Return everything, for programs."""
    found = {
        one.measure: {
            "ratio": ratio(one.ratios),
            "spread": spread(one.ratios),
            "beyond_noise": one.is_beyond_noise,
        }
        for one in differences(rounds)
    }
    costs = {name: costs_of(costs) for name, costs in rounds.costs.items()}
    return {"compare": {"revisions": rounds.titles, "differences": found, **costs}}


def text(rounds: Rounds) -> str:
    """Return everything, for people."""
    lines: list[Sequence[str]] = [("new by old", "spread", "", "")]
    for one in differences(rounds):
        verdict = "differs" if one.is_beyond_noise else "within the noise"
        lines.append(
            (
                shown(ratio(one.ratios), 3),
                "-".join(shown(bound, 3) for bound in spread(one.ratios)),
                one.measure,
                verdict,
            )
        )
    many = len(rounds.costs["new"])
    few = f" (never said of fewer than {ROUNDS})" if many < ROUNDS else ""
    return "\n".join(
        (
            f"old: {rounds.titles['old']}, new: {rounds.titles['new']}, {many} rounds",
            f"differs: every round lies on the same side of 1{few}",
            "",
            table(lines),
            "",
        )
    )

"""Draws the shortest way to what breaks without the placeholder: a column a batch, and what is committed beside it."""

from __future__ import annotations

from tests.model.batch_model import Batches
from tests.model.batch_world import Event, Scenario, World
from tests.model.explorer import explore

WIDTH = 34
SCENARIO = Scenario(
    events=(Event(0, 1), Event(0, 2)), batches=((0, (0,)), (1, (1,))), shared=False, crashes=0
)
BROKEN = "I4 versions are applied from 1 on, in order, once"
SAID = {
    "enters": "begin",
    "claims": "claim the identity",
    "locks": "lock the position: not there",
    "judges": "judge version {version} after 0: {verdict}",
    "commits": "write, commit",
}


def drawn() -> list[str]:
    """Return the lines of the picture."""
    found = explore(Batches(SCENARIO, without="placeholders").model()).broken[BROKEN]
    lines = [
        _line("batch of version 1", "batch of version 2", "committed"),
        _line("-" * 30, "-" * 30, "-" * 34),
    ]
    for label, world in found.way:
        word, _, batch = label.partition(" ")
        if word in SAID:
            index = int(batch)
            said = SAID[word].format(version=index + 1, verdict="next" if index == 0 else "a gap, park it")
            cells = ("", said) if index else (said, "")
            lines.append(_line(*cells, _committed(world) if word == "commits" else ""))
    return [*lines, "", f"broken: {BROKEN}"]


def _committed(world: World) -> str:
    place = world.places[0]
    assert place is not None
    parked = f", {place.waiting} parked" if place.waiting else ""
    return f"row {list(world.rows[0])}, position {place.version}{parked}"


def _line(*cells: str) -> str:
    return "".join(f"{cell:{WIDTH}}" for cell in cells).rstrip()

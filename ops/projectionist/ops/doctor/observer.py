"""Checks that `projectionist observe` runs: alerts about lag, backlog, gaps and old intents need its series."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from projectionist.core.postgres.statements import Statements
from projectionist.ops.doctor.check import Check, attention, note, well
from projectionist.runner.process.observe import session_name

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings, Telemetry

ABOUT, NAME = "processes", "observer"
NOBODY = "no `projectionist observe` is connected, so alerts about lag, gaps and intents cannot fire"
START = "Run one `projectionist observe` beside runners and relays"


class Observed(StrEnum):
    """The processes that tell where consumers and the outbox stand."""

    RUNS = "runs"
    MISSING = "missing"
    """Runners or relays work, and it does not."""
    NOT_YET = "not yet"
    """Nothing works yet."""


async def look(connection: Connection, settings: Settings, silent_s: float) -> Observed:
    """Ask the database; `silent_s`: who has told nothing for so long does not work."""
    schema = settings.postgres.schema
    row = await connection.fetchrow(
        Statements("projectionist.ops", schema)["select_observer"], session_name(schema), silent_s
    )
    assert row is not None, "it always answers"
    if row["observed"]:
        return Observed.RUNS
    return Observed.MISSING if row["fleet"] else Observed.NOT_YET


def checks(found: Observed, telemetry: Telemetry) -> Iterator[Check]:
    """Check what that means under these settings. Pure.

    Where metrics go nowhere there is nobody to observe for: a database to develop with needs none.
    """
    if found is Observed.RUNS:
        yield well(ABOUT, NAME, "`projectionist observe` tells where consumers and the outbox stand")
    elif telemetry.metrics == "none":
        if not telemetry.allow_unmonitored:
            mend = "For a deployment: set [telemetry] exporter or endpoint, and run `projectionist observe`"
            yield note(ABOUT, NAME, "metrics go nowhere, so no alert says when consumers stand still", mend)
    elif found is Observed.MISSING:
        yield attention(ABOUT, NAME, NOBODY, START)
    else:
        yield note(ABOUT, NAME, NOBODY, START)

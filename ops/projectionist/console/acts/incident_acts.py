"""Closes incidents that somebody has dealt with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.verb import Answer, Given, Option, Question, Verb, numbers
from projectionist.console.pages import TO_SAY, command_line
from projectionist.runner.admin.incidents import Incidents

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database


async def _ask(db: Database, given: Given) -> Question:
    incidents, chosen = Incidents(db.connection, db.schema), numbers(given, "number")
    found = [await incidents.one(number) for number in chosen]
    others = len(await incidents.alike(chosen)) - sum(1 for one in found if one["closed"] is None)
    several = len(chosen) > 1
    options = [
        Option(
            name="every",
            value="yes",
            label=f"Close it for the other consumers too ({others})",
            says="It is the same event.",
        )
    ]
    return Question(
        title=f"Close {len(chosen)} incidents" if several else f"Close incident {chosen[0]}",
        fact=", ".join(
            f"{one['number']} {one['kind']} of {one['consumer'] or 'all consumers'}" for one in found
        )
        + ".",
        says="Closing says that somebody has dealt with it. It changes nothing but the incident.",
        label=f"Close {len(chosen)} incidents" if several else f"Close incident {chosen[0]}",
        command=command_line("incidents", "close", *chosen, "--reason", TO_SAY),
        back="/incidents",
        matches=len(chosen),
        options=options if others > 0 else [],
    )


async def _close(db: Database, given: Given, act: Act) -> Answer:
    incidents, chosen = Incidents(db.connection, db.schema), numbers(given, "number")
    if given.get("every"):
        chosen = sorted({*chosen, *await incidents.alike(chosen)})
    closed = await incidents.close(chosen, act)
    left = len(chosen) - len(closed)
    text = f"{len(closed)} closed." + (f" {left} was not open." if left else "")
    return Answer(text, "/incidents")


VERBS = {"close-incident": Verb(Role.OPERATE, _ask, _close)}

"""Acts on one row: recompute."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from projectionist.console.access.sessions import Role
from projectionist.console.acts.verb import Answer, Given, Question, Verb, needed
from projectionist.console.pages import TO_SAY, command_line
from projectionist.core.operator import NotThere
from projectionist.runner.history.lost_events import is_own
from projectionist.runner.verify.recompute import recompute
from projectionist.runner.verify.verify import live_consumer

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.projections.compiled.definition import Definition


def row_path(consumer: str, key: str) -> str:
    """Return where the page of a row is."""
    return f"/row?{urlencode({'consumer': consumer, 'key': key})}"


async def _row(db: ConsoleDatabase, given: Given) -> tuple[Definition, str]:
    """Return whose row it is and its key; NotThere where more of the stream is read for it than a page may wait for."""
    definition, key = db.definition(needed(given, "consumer")), needed(given, "key")
    consumer, _ = await live_consumer(db.queries, definition, db.settings)
    if not is_own(consumer) or not definition.subjects.names_aggregate:
        told = command_line("recompute", db.app_name, definition.name, "--reason", TO_SAY, of=key)
        raise NotThere(
            f"all of the stream is read for a row of {definition.name}, which takes longer than a page may",
            remedy=f"Take the command line: {told}",
        )
    return definition, key


async def _ask(db: ConsoleDatabase, given: Given) -> Question:
    definition, key = await _row(db, given)
    return Question(
        title=f"Recompute {key} of {definition.name}",
        fact="The row is folded again from the events that live has applied, and written where it differs.",
        says="No effect is made. Batches wait for some milliseconds.",
        label="Recompute the row",
        command=command_line("recompute", db.app_name, definition.name, "--reason", TO_SAY, of=key),
        back=row_path(definition.name, key),
    )


async def _recompute(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, key = await _row(db, given)
    async with db.broker() as client:
        done = await recompute(db.queries, definition, db.settings, client, key, act)
    if done.changed is None:
        told = f"{done.events:,} events make it what it was." if done.events else "No event makes such a row."
    else:
        columns = ", ".join(sorted(done.changed.live or done.changed.folded or {}))
        told = f"Written anew: {columns}." + (
            f" Wrong from {done.changed.since} on." if done.changed.since else ""
        )
    return Answer(told, row_path(definition.name, key))


VERBS = {"recompute": Verb(Role.OPERATE, _ask, _recompute)}

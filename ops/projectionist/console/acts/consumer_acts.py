"""Acts on a whole consumer: pause, resume, close its breaker, start it as new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.verb import Answer, Given, Option, Question, Verb, needed
from projectionist.console.needs import consumer_path
from projectionist.console.pages import TO_SAY, command_line
from projectionist.runner.admin import pause as pausing
from projectionist.runner.admin.parked_queries import ParkedQueries
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.failures import consumer_breaker

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database
    from projectionist.runner.admin.reset import Outstanding


async def _named(db: Database, given: Given) -> str:
    name = needed(given, "consumer")
    await ParkedQueries(db.connection, db.schema).consumer(name)
    return name


async def _ask_pause(db: Database, given: Given) -> Question:
    name = await _named(db, given)
    return Question(
        title=f"Pause {name}",
        fact=f"No process applies anything of {name} until it is resumed.",
        says="What was fetched goes back to the broker, nothing is acked, and rows stay as they are. "
        "Events wait in the stream, for as long as it keeps them.",
        label=f"Pause {name}",
        command=command_line("pause", name, "--reason", TO_SAY),
        back=consumer_path(name),
    )


async def _pause(db: Database, given: Given, act: Act) -> Answer:
    name = await _named(db, given)
    done = await pausing.pause(db.connection, db.schema, name, act)
    return Answer(f"{name} is paused." if done else f"{name} was paused already.", consumer_path(name))


async def _ask_resume(db: Database, given: Given) -> Question:
    name = await _named(db, given)
    return Question(
        title=f"Resume {name}",
        fact=f"{name} goes on where it stands, within a second or so.",
        says="Nothing was lost meanwhile, as long as its stream keeps what it has not read.",
        label=f"Resume {name}",
        command=command_line("resume", name, "--reason", TO_SAY),
        back=consumer_path(name),
    )


async def _resume(db: Database, given: Given, act: Act) -> Answer:
    name = await _named(db, given)
    done = await pausing.resume(db.connection, db.schema, name, act)
    return Answer(f"{name} goes on." if done else f"{name} was not paused.", consumer_path(name))


async def _ask_breaker(db: Database, given: Given) -> Question:
    name = await _named(db, given)
    return Question(
        title=f"Close the breaker of {name}",
        fact=f"{name} applies events again at once, instead of after the breaker's pause.",
        says="Where keys still fail it opens again.",
        label="Close the breaker",
        command=command_line("breaker", "reset", name, "--reason", TO_SAY),
        back=consumer_path(name),
    )


async def _close_breaker(db: Database, given: Given, act: Act) -> Answer:
    name = await _named(db, given)
    was_open = await consumer_breaker.reset(db.connection, db.schema, name, act)
    told = "is closed again" if was_open else "was not open"
    return Answer(f"The breaker of {name} {told}.", consumer_path(name))


SCHEDULED = [
    Option(name="scheduled", value="keep", label="Keep intents that wait for their time", kind="radio"),
    Option(name="scheduled", value="discard", label="Discard intents that wait for their time", kind="radio"),
]


async def _ask_reset(db: ConsoleDatabase, given: Given) -> Question:
    name = await _named(db, given)
    async with db.broker() as client:
        found = await Resetting(db.connection, client, db.schema).plan(name, scheduled="keep")
    rows = f"All rows of {', '.join(found.tables)}, " if found.tables else ""
    inside = f"{found.inbox:,} inbox entries and {found.parked:,} parked events"
    return Question(
        title=f"Start {name} as new",
        fact=f"{rows}{found.positions:,} positions, {inside} go.",
        says=f"Stream {found.stream} is read from its first message; {found.decisions:,} decisions are repeated. "
        f"Effects are real from sequence {found.effects_from:,} on. This cannot be taken back.",
        label=f"Start {name} as new",
        command=command_line(
            "reset", name, *(("--scheduled", TO_SAY) if found.scheduled else ()), "--reason", TO_SAY
        ),
        back=consumer_path(name),
        matches=found.positions,
        options=SCHEDULED if found.scheduled else [],
    )


async def _reset(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    name = await _named(db, given)
    said: Outstanding | None = "keep" if given.get("scheduled") == "keep" else None
    if given.get("scheduled") == "discard":
        said = "discard"
    async with db.broker() as client:
        done = await Resetting(db.connection, client, db.schema).reset(name, act, scheduled=said)
    return Answer(f"{name} starts as new: {done.positions:,} positions are gone.", consumer_path(name))


VERBS = {
    "pause": Verb(Role.OPERATE, _ask_pause, _pause),
    "resume": Verb(Role.OPERATE, _ask_resume, _resume),
    "reset": Verb(Role.DESTROY, _ask_reset, _reset),
    "breaker-reset": Verb(Role.OPERATE, _ask_breaker, _close_breaker),
}

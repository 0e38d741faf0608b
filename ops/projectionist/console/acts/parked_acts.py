"""Acts on parked events: retry, skip, discard, edit, and accept a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.chosen import (
    COUNTED,
    PARKED,
    RATE,
    need_choice,
    of_more,
    options,
    parked_filter,
    query,
)
from projectionist.console.acts.operation_acts import begin
from projectionist.console.acts.verb import Answer, Field, Given, Option, Question, Verb, fewer, needed, shown
from projectionist.console.pages import TO_SAY, command_line, flag
from projectionist.core.operator import NotThere
from projectionist.runner.admin.bulk_actions import BulkHandling, BulkResult
from projectionist.runner.admin.parked_queries import ParkedQueries, corrected
from projectionist.runner.operations.operation import OperationKind

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database
    from projectionist.runner.admin.parked_queries import CountedEvents, ParkedEntry


def _queries(db: Database) -> ParkedQueries:
    return ParkedQueries(db.connection, db.schema)


def _handling(db: Database, act: Act) -> BulkHandling:
    return BulkHandling(db.connection, db.schema, act, rate=RATE)


async def _counted(db: Database, given: Given, *, heads: bool, most: int = COUNTED) -> CountedEvents:
    """Count what an address chooses, or of that what is to be decided about; NotThere where nothing is."""
    need_choice(given, PARKED)
    found = await _queries(db).count(parked_filter(given), heads=heads, most=most)
    if found is None:
        what = "waits" if heads else "is parked"
        raise NotThere(f"nothing that is like this {what} any more", remedy="Look at what waits now: Waiting")
    return found


async def _first_head(db: Database, found: CountedEvents) -> list[ParkedEntry]:
    return await _queries(db).heads(found.first, 1)


def _noun(events: int) -> str:
    return f"{events:,} events" if events != 1 else "1 event"


def _told(verb: str, done: BulkResult, left: int) -> str:
    parts = [f"{verb}: {len(done.changed):,} done."]
    if done.unchanged:
        event, why = next(iter(done.unchanged.items()))
        parts.append(f"{len(done.unchanged):,} not, the first: {event}: {why}.")
    if done.note:
        parts.append(f"{done.note}.")
    if done.left + left:
        parts.append(f"{done.left + left:,} left.")
    return " ".join(parts)


def _back(given: Given) -> str:
    if given.get("id"):
        return f"/waiting/event{query(given, ('consumer', 'source', 'id'))}"
    return f"/waiting/group{query(given, PARKED)}"


def _command(verb: str, given: Given) -> str:
    one, chosen = given.get("id") or None, options(given, PARKED)
    every = [] if one else ["--all"]
    return command_line("parked", verb, *chosen, *every, "--reason", TO_SAY, of=one)


async def _ask_retry(db: Database, given: Given) -> Question:
    found = await _counted(db, given, heads=True)
    noun = _noun(found.events)
    ways = [
        Option(
            name="how",
            value="samples",
            label="In samples: 1, 5, 20, 100, then the rest",
            says="The rest is left where none of a sample gets through. It goes on without this page.",
            kind="radio",
            checked=True,
        ),
        Option(
            name="how",
            value="one",
            label="One event, to see",
            says=f"The oldest: {found.id} of {found.place}",
            kind="radio",
        ),
    ]
    return Question(
        title=f"Retry {noun}",
        fact=f"{noun} {'are' if found.events > 1 else 'is'} tried once more, and what waits behind drains.",
        says=f"No intent that exists is sent again.{of_more(found.events)}",
        label=f"Retry {noun}",
        command=_command("retry", given),
        back=_back(given),
        matches=found.events,
        options=ways if found.events > 1 else [],
    )


async def _retry(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    found = await _counted(db, given, heads=True, most=shown(given))
    if found.events > 1 and given.get("how") != "one":
        return await begin(db, OperationKind.RETRY_PARKED, parked_filter(given), given, act)
    done = await _handling(db, act).retry(await _first_head(db, found))
    return Answer(_told("Retry", done, found.events - 1) + fewer(found.events, given), "/waiting")


async def _ask_skip(db: Database, given: Given) -> Question:
    found = await _counted(db, given, heads=True)
    noun = _noun(found.events)
    return Question(
        title=f"Skip {noun}",
        fact=f"{noun} shall never be applied, and what waits behind drains.",
        says=f"A decision for ever: rebuild and verify repeat it.{of_more(found.events)}",
        label=f"Skip {noun}",
        command=_command("skip", given),
        back=_back(given),
        matches=found.events,
    )


async def _skip(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    found = await _counted(db, given, heads=True, most=shown(given))
    if found.events > 1:
        return await begin(db, OperationKind.SKIP_PARKED, parked_filter(given), given, act)
    done = await _handling(db, act).skip(await _first_head(db, found))
    return Answer(_told("Skip", done, 0) + fewer(found.events, given), "/waiting")


async def _ask_discard(db: Database, given: Given) -> Question:
    found = await _counted(db, given, heads=False)
    noun = _noun(found.events)
    return Question(
        title=f"Discard {noun}",
        fact=f"{noun} {'are' if found.events > 1 else 'is'} dropped, heads and those behind them alike.",
        says="A decision for ever: rebuild and verify repeat it. The versions stay missing for their aggregates."
        + of_more(found.events),
        label=f"Discard {noun}",
        command=_command("discard", given),
        back=_back(given),
        matches=found.events,
    )


async def _discard(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    found = await _counted(db, given, heads=False, most=shown(given))
    if found.events > 1:
        return await begin(db, OperationKind.DISCARD_PARKED, parked_filter(given), given, act)
    done = await _handling(db, act).discard(await _queries(db).each(found.first, 1))
    return Answer(_told("Discard", done, 0) + fewer(found.events, given), "/waiting")


async def _gap(db: Database, given: Given) -> tuple[ParkedEntry, int, int]:
    needed(given, "consumer"), needed(given, "aggregate")
    heads = await _queries(db).heads(parked_filter(given), 2)
    found = [one for one in heads if one.ordered and (one.cause != "failed" or one.finding)]
    if len(found) != 1:
        raise NotThere("this aggregate waits for no version", remedy="Look at what waits now: Waiting")
    return found[0], *await _queries(db).lacks(found[0])


async def _ask_gap(db: Database, given: Given) -> Question:
    one, first, last = await _gap(db, given)
    versions = f"versions {first} to {last}" if last > first else f"version {first}"
    return Question(
        title=f"Accept the gap of {one.place}",
        fact=f"{one.name} steps over {versions} of {one.place}, and what waits behind drains.",
        says="A decision for ever. A missing version that comes later is stepped over, and is an incident.",
        label=f"Accept the gap of {last - first + 1:,}",
        command=command_line(
            *("parked", "accept-gap", "--consumer", one.name, *flag("aggregate", one.place)),
            *("--versions", f"{first}..{last}", "--reason", TO_SAY),
        ),
        back=f"/aggregate{query({'name': one.place}, ('name',))}",
        matches=last - first + 1,
    )


async def _accept_gap(db: Database, given: Given, act: Act) -> Answer:
    done = await _handling(db, act).accept_gap([await _gap(db, given)])
    return Answer(_told("Accept gap", done, 0), "/waiting")


async def _one(db: Database, given: Given) -> ParkedEntry:
    for name in ("consumer", "source", "id"):
        needed(given, name)
    found = await _queries(db).each(parked_filter(given), 2)
    if len(found) != 1:
        raise NotThere("this event is not parked any more", remedy="Look at what waits now: Waiting")
    return found[0]


async def _ask_edit(db: Database, given: Given) -> Question:
    one = await _one(db, given)
    return Question(
        title=f"Edit {one.id}",
        fact="This event is read with another payload from now on, in rebuilds too.",
        says="Its identity, version and headers stay. It is tried again at once.",
        label="Edit the event",
        command=command_line(
            *("parked", "edit", "--consumer", one.name, "--data", TO_SAY, "--reason", TO_SAY), of=one.id
        ),
        back=_back(given),
        fields=[Field("data", "Payload", says="The whole of it, as JSON.", long=True)],
    )


async def _edit(db: Database, given: Given, act: Act) -> Answer:
    one, data = await _one(db, given), needed(given, "data").encode()
    hashed = await corrected(db.connection, db.schema, one, data, db.settings.policy(one.name))
    return Answer(_told("Edit", await _handling(db, act).edit(one, data, hashed), 0), "/waiting")


VERBS = {
    "parked-retry": Verb(Role.OPERATE, _ask_retry, _retry),
    "parked-skip": Verb(Role.DESTROY, _ask_skip, _skip),
    "parked-discard": Verb(Role.DESTROY, _ask_discard, _discard),
    "parked-accept-gap": Verb(Role.DESTROY, _ask_gap, _accept_gap),
    "parked-edit": Verb(Role.DESTROY, _ask_edit, _edit),
}

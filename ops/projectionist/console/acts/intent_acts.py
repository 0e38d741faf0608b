"""Acts on intents: retry, discard, and say whether one was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.chosen import INTENTS, intent_filter, need_choice, options, query
from projectionist.console.acts.operation_acts import begin
from projectionist.console.acts.verb import Answer, Field, Given, Option, Question, Verb, needed
from projectionist.console.pages import TO_SAY, command_line
from projectionist.core.operator import NotThere
from projectionist.outbox.admin.intent_actions import IntentActions
from projectionist.runner.operations.operation import OperationKind

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database
    from projectionist.outbox.admin.intent_actions import IntentActionResult


async def _matches(db: Database, given: Given) -> int:
    """Return how many intents an address chooses: one by its key, or those that a filter does."""
    verbs = IntentActions(db.connection, db.schema)
    if given.get("key"):
        await verbs.show(given["key"])
        return 1
    need_choice(given, INTENTS)
    found = sum(group.count for group in await verbs.groups(intent_filter(given)))
    if not found:
        raise NotThere("no intent is like this any more", remedy="Look at what is there now: Outbox")
    return found


async def _only(db: Database, given: Given) -> str | None:
    """Return the key of the one intent that an address chooses; None where a filter chooses several."""
    if given.get("key"):
        return given["key"]
    found = await IntentActions(db.connection, db.schema).each(intent_filter(given), 2)
    return found[0]["key"] if len(found) == 1 else None


def _noun(number: int) -> str:
    return f"{number:,} intents" if number != 1 else "1 intent"


def _command(verb: str, given: Given, *more: str) -> str:
    if given.get("key"):
        return command_line("outbox", verb, *more, "--reason", TO_SAY, of=given["key"])
    return command_line("outbox", verb, *options(given, INTENTS), "--all", "--reason", TO_SAY)


def _back(given: Given) -> str:
    if given.get("key"):
        return f"/outbox/intent{query(given, ('key',))}"
    return f"/outbox/group{query(given, INTENTS)}"


def _told(verb: str, done: IntentActionResult) -> Answer:
    refused = "".join(f" {key} is {state}." for key, state in list(done.unchanged.items())[:1])
    return Answer(f"{verb}: {len(done.changed):,} done.{refused}", "/outbox")


async def _ask_retry(db: Database, given: Given) -> Question:
    number = await _matches(db, given)
    samples = " In samples of 1, 5, 20 and 100: the rest is left where none of a sample is taken."
    return Question(
        title=f"Send {_noun(number)} again",
        fact=f"{_noun(number)}: sent again, now.",
        says="Also what may have been sent already: its provider sees the same key, and may have forgotten it."
        + (samples if number > 1 else ""),
        label=f"Send {_noun(number)} again",
        command=_command("retry", given),
        back=_back(given),
        matches=number,
    )


async def _retry(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    if (key := await _only(db, given)) is None:
        return await begin(db, OperationKind.RETRY_INTENTS, intent_filter(given), given, act)
    return _told("Retry", await IntentActions(db.connection, db.schema).retry([key], act))


async def _ask_discard(db: Database, given: Given) -> Question:
    number = await _matches(db, given)
    return Question(
        title=f"Discard {_noun(number)}",
        fact=f"{_noun(number)}: never sent, for ever. What is behind in their lanes goes on.",
        says="This cannot be taken back.",
        label=f"Discard {_noun(number)}",
        command=_command("discard", given),
        back=_back(given),
        matches=number,
    )


async def _discard(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    if (key := await _only(db, given)) is None:
        return await begin(db, OperationKind.DISCARD_INTENTS, intent_filter(given), given, act)
    return _told("Discard", await IntentActions(db.connection, db.schema).discard([key], act))


async def _ask_resolve(db: Database, given: Given) -> Question:
    key = needed(given, "key")
    await _matches(db, given)
    ways = [
        Option(name="sent", value="yes", label="It was sent", says="It is settled.", kind="radio"),
        Option(name="sent", value="no", label="It was not sent", says="It is sent again, now.", kind="radio"),
    ]
    return Question(
        title="Say whether it was sent",
        fact=f"Intent {key} has no certain answer.",
        says="Look at the provider's own records first: what is said here is believed.",
        label="Resolve the intent",
        command=_command("resolve", given, "--sent"),
        back=_back(given),
        options=ways,
        fields=[Field("provider_id", "The provider's own identifier", says="If it was sent, and has one.")],
    )


async def _resolve(db: Database, given: Given, act: Act) -> Answer:
    keys, verbs = [needed(given, "key")], IntentActions(db.connection, db.schema)
    match given.get("sent"):
        case "yes":
            done = await verbs.resolve_sent(keys, act, provider_id=given.get("provider_id") or None)
        case "no":
            done = await verbs.resolve_not_sent(keys, act)
        case _:
            raise NotThere("say which of the two", remedy="Choose whether it was sent")
    return _told("Resolve", done)


VERBS = {
    "outbox-retry": Verb(Role.OPERATE, _ask_retry, _retry),
    "outbox-discard": Verb(Role.DESTROY, _ask_discard, _discard),
    "outbox-resolve": Verb(Role.OPERATE, _ask_resolve, _resolve),
}

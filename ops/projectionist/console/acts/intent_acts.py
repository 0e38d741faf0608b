"""Acts on intents: retry, discard, and say whether one was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.chosen import AT_ONCE, INTENTS, intent_filter, need_choice, options, query
from projectionist.console.acts.verb import Answer, Field, Given, Option, Question, Verb, fewer, needed, shown
from projectionist.console.pages import TO_SAY, command_line
from projectionist.core.operator import NotThere
from projectionist.outbox.admin.intent_actions import IntentActions

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database
    from projectionist.outbox.admin.intent_actions import IntentActionResult


async def _keys(db: Database, given: Given) -> list[str]:
    """Return the keys that an address chooses: one, or those that a filter does."""
    verbs = IntentActions(db.connection, db.schema)
    if given.get("key"):
        return [(await verbs.show(given["key"]))["key"]]
    need_choice(given, INTENTS)
    found = [row["key"] for row in await verbs.each(intent_filter(given), AT_ONCE)]
    if not found:
        raise NotThere("no intent is like this any more", remedy="Look at what is there now: Outbox")
    return found


def _noun(keys: Sequence[str]) -> str:
    return f"{len(keys):,} intents" if len(keys) != 1 else "1 intent"


def _command(verb: str, given: Given, *more: str) -> str:
    if given.get("key"):
        return command_line("outbox", verb, given["key"], *more, "--reason", TO_SAY)
    return command_line("outbox", verb, *options(given, INTENTS), "--all", "--reason", TO_SAY)


def _back(given: Given) -> str:
    if given.get("key"):
        return f"/outbox/intent{query(given, ('key',))}"
    return f"/outbox/group{query(given, INTENTS)}"


def _most(keys: Sequence[str]) -> str:
    return f" The first {AT_ONCE:,} now; the rest with another press." if len(keys) == AT_ONCE else ""


def _told(verb: str, done: IntentActionResult, more: str = "") -> Answer:
    refused = "".join(f" {key} is {state}." for key, state in list(done.unchanged.items())[:1])
    return Answer(f"{verb}: {len(done.changed):,} done.{refused}{more}", "/outbox")


async def _ask_retry(db: Database, given: Given) -> Question:
    keys = await _keys(db, given)
    return Question(
        title=f"Send {_noun(keys)} again",
        fact=f"{_noun(keys)}: sent again, now.",
        says="Also what may have been sent already: its provider sees the same key, and may have forgotten it."
        + _most(keys),
        label=f"Send {_noun(keys)} again",
        command=_command("retry", given),
        back=_back(given),
        matches=len(keys),
    )


async def _retry(db: Database, given: Given, act: Act) -> Answer:
    keys = (await _keys(db, given))[: shown(given)]
    done = await IntentActions(db.connection, db.schema).retry(keys, act)
    return _told("Retry", done, fewer(keys, given))


async def _ask_discard(db: Database, given: Given) -> Question:
    keys = await _keys(db, given)
    return Question(
        title=f"Discard {_noun(keys)}",
        fact=f"{_noun(keys)}: never sent, for ever. What is behind in their lanes goes on.",
        says=f"This cannot be taken back.{_most(keys)}",
        label=f"Discard {_noun(keys)}",
        command=_command("discard", given),
        back=_back(given),
        matches=len(keys),
    )


async def _discard(db: Database, given: Given, act: Act) -> Answer:
    keys = (await _keys(db, given))[: shown(given)]
    done = await IntentActions(db.connection, db.schema).discard(keys, act)
    return _told("Discard", done, fewer(keys, given))


async def _ask_resolve(db: Database, given: Given) -> Question:
    needed(given, "key")
    [key] = await _keys(db, given)
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
    keys, verbs = await _keys(db, given), IntentActions(db.connection, db.schema)
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

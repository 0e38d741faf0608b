"""Acts on entries of quarantine: read again, correct, discard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.chosen import (
    ASIDE,
    COUNTED,
    RATE,
    need_choice,
    of_more,
    options,
    quarantine_filter,
    query,
)
from projectionist.console.acts.operation_acts import begin
from projectionist.console.acts.verb import (
    Answer,
    Field,
    Given,
    Question,
    Verb,
    fewer,
    needed,
    numbers,
    shown,
)
from projectionist.console.pages import TO_SAY, command_line, flag
from projectionist.core.operator import NotThere
from projectionist.runner.admin.quarantine_queries import QuarantineQueries
from projectionist.runner.operations.operation import OperationKind

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.ops.cli.database import Database
    from projectionist.runner.admin.bulk_actions import BulkResult
    from projectionist.runner.admin.quarantine_actions import Place


async def _counted(
    db: Database, given: Given, *, idle: bool, most: int = COUNTED
) -> tuple[int, tuple[int, Place]]:
    """Count the entries that an address chooses, one by its sequence or those of a filter, and return the oldest."""
    aside = QuarantineQueries(db.connection, db.schema)
    if given.get("seq"):
        [seq], [incarnation] = numbers(given, "seq"), numbers(given, "incarnation")
        row, *_ = await aside.show(seq, needed(given, "consumer"), incarnation)
        return 1, (row["consumer"], (row["incarnation"], row["seq"]))
    need_choice(given, ASIDE)
    found = await aside.count(quarantine_filter(given), idle=idle, most=most)
    if found is None:
        raise NotThere(
            "nothing that is like this is in quarantine any more", remedy="Look at what is there now"
        )
    return found


def _noun(entries: int) -> str:
    return f"{entries:,} entries" if entries != 1 else "1 entry"


def _command(verb: str, given: Given) -> str:
    choice = options(given, ASIDE)
    if given.get("seq"):
        choice = options(given, ("consumer", "incarnation"))
        return command_line("quarantine", verb, *choice, "--reason", TO_SAY, of=given["seq"])
    return command_line("quarantine", verb, *choice, "--all", "--reason", TO_SAY)


def _back(given: Given) -> str:
    if given.get("seq"):
        return f"/quarantine/entry{query(given, ('consumer', 'incarnation', 'seq'))}"
    return f"/quarantine/group{query(given, ASIDE)}"


def _told(verb: str, done: BulkResult) -> str:
    refused = "".join(f" {name}: {why}." for name, why in list(done.unchanged.items())[:1])
    return f"{verb}: {len(done.changed):,} done.{refused}"


async def _ask_retry(db: Database, given: Given) -> Question:
    entries, _ = await _counted(db, given, idle=True)
    return Question(
        title=f"Read {_noun(entries)} again",
        fact=f"{_noun(entries)} of quarantine: read again by the code and settings of the runners.",
        says="What is an event now is applied like any other; what is not stays. Several are read in samples: "
        f"1, 5, 20, 100, then the rest, which is left where none of a sample gets through.{of_more(entries)}",
        label=f"Read {_noun(entries)} again",
        command=_command("retry", given),
        back=_back(given),
        matches=entries,
    )


async def _retry(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    entries, first = await _counted(db, given, idle=True, most=shown(given))
    if entries > 1:
        return await begin(db, OperationKind.RETRY_QUARANTINE, quarantine_filter(given), given, act)
    done = await QuarantineQueries(db.connection, db.schema).act(
        [first], lambda verbs, place: verbs.retry(place, act), rate=RATE
    )
    return Answer(_told("Read again", done) + fewer(entries, given), "/quarantine")


async def _ask_discard(db: Database, given: Given) -> Question:
    entries, _ = await _counted(db, given, idle=False)
    return Question(
        title=f"Discard {_noun(entries)}",
        fact=f"{_noun(entries)} of quarantine: no events, for ever.",
        says=f"Rebuilds do not read them either. This cannot be taken back.{of_more(entries)}",
        label=f"Discard {_noun(entries)}",
        command=_command("discard", given),
        back=_back(given),
        matches=entries,
    )


async def _discard(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    entries, first = await _counted(db, given, idle=False, most=shown(given))
    if entries > 1:
        return await begin(db, OperationKind.DISCARD_QUARANTINE, quarantine_filter(given), given, act)
    done = await QuarantineQueries(db.connection, db.schema).act(
        [first], lambda verbs, place: verbs.discard(place, act), rate=RATE
    )
    return Answer(_told("Discard", done) + fewer(entries, given), "/quarantine")


def replacements(headers: str, without: str) -> dict[str, str | None]:
    """Return the headers that an edit writes (NAME=VALUE, one a line) and those that it leaves out. Pure.

    Raises NotThere for a line that is neither.
    """
    found: dict[str, str | None] = dict.fromkeys(without.split())
    for line in filter(None, map(str.strip, headers.splitlines())):
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise NotThere(f"{line!r} is not NAME=VALUE", remedy="Write one header a line, like ce-id=e-17")
        found[name.strip()] = value
    return found


async def _ask_edit(db: Database, given: Given) -> Question:
    needed(given, "seq")
    await _counted(db, given, idle=False)
    return Question(
        title=f"Correct sequence {given['seq']}",
        fact="This message is read with other headers, another payload, or both, in rebuilds too.",
        says="What came from the stream stays as it was. It is read again at once.",
        label="Correct the message",
        command=command_line(
            *("quarantine", "edit", *flag("consumer", needed(given, "consumer"))),
            *flag("incarnation", needed(given, "incarnation")),
            *("--header", TO_SAY, "--reason", TO_SAY),
            of=given["seq"],
        ),
        back=_back(given),
        fields=[
            Field("headers", "Headers", says="NAME=VALUE, one a line; others stay.", long=True),
            Field("without", "Without these headers", says="Names, with spaces between them."),
            Field("data", "Payload", says="The whole of it; empty: as it is.", long=True),
        ],
    )


async def _edit(db: Database, given: Given, act: Act) -> Answer:
    needed(given, "seq")
    _, first = await _counted(db, given, idle=False)
    headers = replacements(given.get("headers", ""), given.get("without", ""))
    data = given["data"].encode() if given.get("data") else None
    done = await QuarantineQueries(db.connection, db.schema).act(
        [first], lambda verbs, place: verbs.edit(place, act, headers=headers, data=data), rate=RATE
    )
    return Answer(_told("Correct", done), "/quarantine")


VERBS = {
    "quarantine-retry": Verb(Role.OPERATE, _ask_retry, _retry),
    "quarantine-edit": Verb(Role.DESTROY, _ask_edit, _edit),
    "quarantine-discard": Verb(Role.DESTROY, _ask_discard, _discard),
}

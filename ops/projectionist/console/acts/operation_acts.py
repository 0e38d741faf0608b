"""Acts on operations: begin one on a group, stop one, and take up one that nobody carries out.

What is begun or taken up here is carried out beside the pages; where the console ends, another process may go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.access.sessions import Role
from projectionist.console.acts.chosen import RATE
from projectionist.console.acts.verb import Answer, Given, Question, Verb, number, shown
from projectionist.console.needs import operation_path
from projectionist.console.pages import TO_SAY, command_line, count
from projectionist.core.operator import NotThere
from projectionist.runner.operations import group
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.operations.operation_store import OperationStore
from projectionist.runner.rebuild.build_lease import owner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.operations.operation import Chosen, OperationReport
    from projectionist.runner.operations.operation_store import Grant

KIND = "operation"
PATIENCE_S = 30.0


async def begin(db: ConsoleDatabase, kind: OperationKind, chosen: Chosen, given: Given, act: Act) -> Answer:
    """Begin an operation on what is chosen, on no more than were shown, and carry it out beside the pages."""
    store, who = OperationStore(db.connection, db.schema), owner()
    pace = {"rate": RATE, "patience_s": PATIENCE_S}
    grant = await store.begin(kind, chosen, act, who, most=shown(given), **pace)
    if grant is None:
        raise NotThere("nothing that is like this waits any more", remedy="Look at what is there now")
    matched = (await store.show(grant.number)).matched
    try:
        _carry_out(db, grant, act, who)
    except NotThere as full:
        await store.let_go(grant, full.message)
        told = f"Operation {grant.number} is on record, and nobody carries it out: {full.message}."
        return Answer(told, operation_path(grant.number))
    fewer = f" {shown(given):,} were shown: the others went on meanwhile." if matched < shown(given) else ""
    return Answer(f"Operation {grant.number} has begun: {matched:,}.{fewer}", operation_path(grant.number))


def _carry_out(db: ConsoleDatabase, grant: Grant, act: Act, who: str) -> None:
    postgres = db.settings.postgres

    async def carry_out(_: Progress) -> object:
        return await group.carry_out(postgres, grant, act.actor, lambda _: None, interrupted=None)

    db.works.forget_ended(KIND)
    db.works.begin(KIND, str(grant.number), act, carry_out, who)


async def _open(db: ConsoleDatabase, given: Given) -> OperationReport:
    found = await OperationStore(db.connection, db.schema).show(number(given, "number"))
    if found.ended is not None:
        raise NotThere(f"operation {found.number} has ended: {found.state}", remedy="Look at its page")
    return found


async def _ask_stop(db: ConsoleDatabase, given: Given) -> Question:
    found = await _open(db, given)
    return Question(
        title=f"Stop operation {found.number}",
        fact=f"{count(found.left)} of {count(found.matched)} are left as they are.",
        says="What it has done stays done. It stops before its next step; nothing is taken back.",
        label=f"Stop operation {found.number}",
        command=command_line("operations", "stop", found.number, "--reason", TO_SAY),
        back=operation_path(found.number),
    )


async def _stop(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    found = await _open(db, given)
    ended = await OperationStore(db.connection, db.schema).ask_to_stop(found.number, act)
    told = "has ended" if ended else "is asked to stop"
    return Answer(f"Operation {found.number} {told}.", operation_path(found.number))


def _taking_up(
    kinds: frozenset[OperationKind],
) -> tuple[
    Callable[[ConsoleDatabase, Given], Awaitable[Question]],
    Callable[[ConsoleDatabase, Given, Act], Awaitable[Answer]],
]:
    """Return the question and the act of going on with an operation of one of these kinds."""

    async def abandoned(db: ConsoleDatabase, given: Given) -> OperationReport:
        found = await _open(db, given)
        if not found.is_abandoned:
            raise NotThere(f"{found.owner} carries operation {found.number} out", remedy="Look at its page")
        if found.kind not in kinds:
            raise NotThere(f"operation {found.number} is one of another kind", remedy="Come by its page")
        return found

    async def ask(db: ConsoleDatabase, given: Given) -> Question:
        found = await abandoned(db, given)
        return Question(
            title=f"Go on with operation {found.number}",
            fact=f"{count(found.left)} of {count(found.matched)} are left.",
            says="It goes on with the first that is left, in this console. Each is compared with what stood there "
            "when it began.",
            label=f"Go on with operation {found.number}",
            command=command_line("operations", "take-up", found.number, "--reason", TO_SAY),
            back=operation_path(found.number),
        )

    async def do(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
        found, who = await abandoned(db, given), owner()
        store = OperationStore(db.connection, db.schema)
        grant = await store.take_up(found.number, act, who)
        try:
            _carry_out(db, grant, act, who)
        except NotThere as full:
            await store.let_go(grant, full.message)
            raise
        return Answer(f"Operation {found.number} goes on.", operation_path(found.number))

    return ask, do


TRIED = frozenset(kind for kind in OperationKind if kind.is_tried)
VERBS = {
    "operation-stop": Verb(Role.OPERATE, _ask_stop, _stop),
    "operation-take-up": Verb(Role.OPERATE, *_taking_up(TRIED)),
    "operation-take-up-for-ever": Verb(Role.DESTROY, *_taking_up(frozenset(OperationKind) - TRIED)),
}

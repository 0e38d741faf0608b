"""The page before an act, and the act: any verb, asked about by an address and done by a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from projectionist.console.acts import (
    consumer_acts,
    incident_acts,
    intent_acts,
    operation_acts,
    parked_acts,
    preview_acts,
    quarantine_acts,
    rebuild_acts,
    row_acts,
)
from projectionist.console.acts.verb import shown
from projectionist.console.console_context import act_of, form_of, go_to, session_of
from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import NotThere

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.acts.verb import Given, Question, Verb
    from projectionist.console.console_context import ConsoleContext

VERBS: Mapping[str, Verb] = {
    **consumer_acts.VERBS,
    **incident_acts.VERBS,
    **parked_acts.VERBS,
    **quarantine_acts.VERBS,
    **intent_acts.VERBS,
    **operation_acts.VERBS,
    **rebuild_acts.VERBS,
    **row_acts.VERBS,
    **preview_acts.VERBS,
}


def _verb(request: Request) -> Verb:
    name = str(request.path_params["verb"])
    if name not in VERBS:
        raise NotThere(f"there is no act {name!r}", remedy="Come here by a button of a page")
    found = VERBS[name]
    role = session_of(request).person.role
    if not role.may(found.role):
        raise NotAllowed(
            f"this needs the role {found.role}, and yours is {role}", remedy="Ask somebody who has it"
        )
    return found


class NotAllowed(ProjectionistError):
    """Somebody may not do what they have asked for."""


async def ask(context: ConsoleContext, request: Request) -> Response:
    """Say what would be done, how many it touches, and ask why."""
    verb, given = _verb(request), dict(request.query_params)
    async with context.database() as db:
        question = await verb.ask(db, given)
    return await _asked(context, request, question, {})


async def do(context: ConsoleContext, request: Request) -> Response:
    """Do it, if it is still what was shown, and touches no more; what is refused is said on the page before it."""
    verb, form = _verb(request), form_of(request)
    given = {**form, **request.query_params, "seen": form.get("seen", "")}
    async with context.database() as db:
        question = await verb.ask(db, given)
        if question.matches > shown(given):
            problem = f"It would touch {question.matches:,} now, more than were shown. Nothing was done."
            return await _asked(context, request, question, form, problem)
        if question.about != form.get("about", ""):
            problem = "It would be another one than was shown. Nothing was done."
            return await _asked(context, request, question, form, problem)
        try:
            done = await verb.do(db, given, act_of(request))
        except ProjectionistError as refused:
            return await _asked(context, request, question, form, f"Nothing was done: {refused}")
    context.onlooker.forget()
    session_of(request).notice = done.text
    return go_to(request, done.href)


async def _asked(
    context: ConsoleContext, request: Request, question: Question, form: Given, problem: str = ""
) -> Response:
    status = 409 if problem else 200
    return await context.page(
        request, "confirm.html", "", status=status, question=question, form=form, problem=problem
    )

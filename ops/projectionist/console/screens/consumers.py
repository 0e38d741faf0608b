"""Consumer: is it well, how fast, and what was done to it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from projectionist.console.needs import behind_s, condition, needs
from projectionist.console.pages import command_line, count
from projectionist.core.operator import NotThere
from projectionist.ops.inspect.consumer_state import consumer_state
from projectionist.ops.inspect.project_status import alive
from projectionist.projections.compiled.definition import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext
    from projectionist.ops.inspect.consumer_state import ConsumerState
    from projectionist.runner.app import App
    from projectionist.runner.consumers.status import Counted

HEADS = {
    "waiting": ("act", "for new code or for you"),
    "failed": ("wait", "will be tried again"),
    "gap": ("wait", "versions are missing"),
    "draining": ("busy", "parked events follow"),
}
OUTCOMES = {
    "parked_failed": "parked after a failure",
    "parked_gap": "parked at a gap",
    "parked_blocked": "parked behind others",
    "parked_stored": "stored first",
}
COLUMNS = ("applied", "ignored", "duplicate", "failed")
"""Outcomes that have a column of their own; the others are told in words, as a page has no room for all of them."""
ACTS = 3
SHORT = 8
"""So many letters of a fingerprint tell codes apart."""


class CodeState(NamedTuple):
    """Which code a consumer runs, and by which its rows were made."""

    has_rows: bool
    is_keyed: bool
    """Whether the app of this console can fold its rows one by one."""
    told: dict[str, object]


class TypeCounts(NamedTuple):
    """Tells what became of the events of one type."""

    type: str
    columns: list[tuple[str, int]]
    besides: str
    """Tells what else became of some, the most first."""


def counts_by_type(counted: Iterable[Counted]) -> list[TypeCounts]:
    """Return what a consumer has counted, a line a type. Pure."""
    types: dict[str, dict[str, int]] = {}
    for each in counted:
        types.setdefault(each.what, {})[each.outcome] = each.n
    shown = [one for one in COLUMNS if any(one in numbers for numbers in types.values())]
    return [
        TypeCounts(name, [(one, numbers.get(one, 0)) for one in shown], _besides(numbers))
        for name, numbers in types.items()
    ]


def _besides(numbers: dict[str, int]) -> str:
    others = sorted((-n, outcome) for outcome, n in numbers.items() if n and outcome not in COLUMNS)
    return ", ".join(f"{count(-n)} {spoken(outcome)}" for n, outcome in others)


def spoken(outcome: str) -> str:
    """Return how an outcome that is counted is told to people. Pure."""
    return OUTCOMES.get(outcome, outcome.replace("_", " "))


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show one consumer; NotThere if the database knows none of that name."""
    name, seen = request.query_params.get("name", ""), await context.look(request)
    one = next((each for each in seen.status.consumers if each.name == name), None)
    if one is None:
        raise NotThere(f"there is no consumer {name!r}", remedy="The overview lists those that there are")
    found = [each for each in needs(seen.status) if name == each.about]
    async with context.reading() as db:
        state = await consumer_state(db.connection, db.schema, name, ACTS)
    return await context.page(
        request,
        "consumer.html",
        "overview",
        one=one,
        condition=condition(one, {name} if found else set()),
        needs=found,
        behind_s=behind_s(one),
        alive={(runner.host, runner.pid) for runner in alive(one)},
        heads=[(head, *HEADS.get(head, ("idle", "")), n) for head, n in sorted(one.heads.items())],
        hour=seen.minutes.get(name),
        types=counts_by_type(state.counted),
        acts=list(reversed(state.acts)),
        code=_code(context.app, name, state),
        command=command_line("status", "--by", "type"),
    )


def _code(app: App, name: str, found: ConsumerState) -> CodeState:
    first = next(iter(found.views), None)
    reads: dict[str, object] = (
        {}
        if first is None
        else {
            "reads": first.subjects.split(),
            "order": first.sequence,
            "durable": first.durable or None,
        }
    )
    if first is None or [one.view_name for one in found.views] != [name]:
        told = [f"{one.view_name}: {one.state}, revision {one.revision}" for one in found.views]
        return CodeState(False, False, {"views": told, **reads})
    ours = next((one for one in app.views if one.name == name), None)
    has_rows = first.kind != Kind.REACTOR
    rows = (
        "made by the code that runs"
        if found.made_by == first.code
        else "by older code, in part: a rebuild writes them anew"
    )
    state: dict[str, object] = {
        "revision": first.revision,
        "revision of this console's code": ours.revision
        if ours and ours.revision != first.revision
        else None,
        "code": first.code[:SHORT],
        "this console's code": ours.code.hex()[:SHORT] if ours and ours.code.hex() != first.code else None,
        "rows": rows if has_rows else None,
        **reads,
    }
    return CodeState(has_rows, ours is not None and ours.kind is Kind.PROJECTION, state)

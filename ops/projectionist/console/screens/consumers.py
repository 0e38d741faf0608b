"""Consumer: is it well, how fast, and what was done to it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.needs import condition, needs
from projectionist.console.pages import command_line
from projectionist.core.operator import NotThere
from projectionist.ops.inspect.project_status import alive
from projectionist.runner.admin.audit_log import AuditFilter, acts
from projectionist.runner.consumers import status

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

HEADS = {
    "waiting": ("act", "for new code or for you"),
    "failed": ("wait", "will be tried again"),
    "gap": ("wait", "versions are missing"),
    "draining": ("busy", "parked events follow"),
}
ACTS = 3


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show one consumer; NotThere if the database knows none of that name."""
    name, seen = request.query_params.get("name", ""), await context.onlooker.look()
    one = next((each for each in seen.status.consumers if each.name == name), None)
    if one is None:
        raise NotThere(f"there is no consumer {name!r}", remedy="The overview lists those that there are")
    found = [each for each in needs(seen.status) if name == each.about]
    async with context.database() as db:
        counted = await status.breakdown(db.connection, db.schema, "type")
        done = await acts(db.connection, db.schema, AuditFilter(consumer=name), limit=ACTS)
    types: dict[str, dict[str, int]] = {}
    for each in counted:
        if each.name == name:
            types.setdefault(each.what, {})[each.outcome] = each.n
    return await context.page(
        request,
        "consumer.html",
        "overview",
        one=one,
        condition=condition(one, {name} if found else set()),
        needs=found,
        alive={(runner.host, runner.pid) for runner in alive(one)},
        heads=[(head, *HEADS.get(head, ("idle", "")), n) for head, n in sorted(one.heads.items())],
        rate=seen.rates.get(name),
        types=types,
        outcomes=sorted({outcome for each in types.values() for outcome in each}),
        acts=list(reversed(done)),
        command=command_line("status", "--by", "type"),
    )

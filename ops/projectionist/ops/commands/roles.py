"""`projectionist roles`: the least rights for each role of the database that works for us."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.postgres.rights import Duty
from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projectionist.migrations.role_plan import RolePlan

TOPIC = Topic.RUN
HELP = "give the roles of the database the least rights that runners, relays, operators and readers need"
EXAMPLE = """
projectionist roles plan --runner app_run --relay app_relay      the grants that are lacking, as SQL; changes nothing
projectionist roles apply --runner app_run --relay app_relay     make them, in one transaction
projectionist roles plan                                         do those on record have what they need, and no more?
projectionist roles apply --operator ann --operator bob --revoke   take what is beyond a duty, too
"""
REASON = "projectionist roles apply"
_SAYS = {
    Duty.OWNER: "owns schema, tables and views: migrates, rebuilds, resets, retires, purges the audit",
    Duty.RUNNER: "run, replay, recompute, verify, purge",
    Duty.RELAY: "relay",
    Duty.OPERATOR: "the acts of operators, and all that an observer sees",
    Duty.OBSERVER: "status, doctor, observe, journey, audit, lists",
    Duty.RECORDER: "programs that record events in transactions of their own",
    Duty.READER: "select from the views",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=("plan", "apply"), help="what to do")
    for duty in Duty:
        parser.add_argument(
            f"--{duty}", action="append", metavar="ROLE", help=f"{_SAYS[duty]} (default: those on record)"
        )
    parser.add_argument("--revoke", action="store_true", help="take rights that go beyond these duties")
    app_arguments.declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it as the owner of the tables, or as a superuser."""
    plan = asyncio.run(_run(args))
    if args.json:
        say_json(_document(plan, args))
    else:
        say("\n".join(_lines(plan, args)))
    return Exit.ATTENTION if plan.surplus and not args.revoke else Exit.DONE


async def _run(args: argparse.Namespace) -> RolePlan:
    from projectionist.core.operator import Act
    from projectionist.migrations.role_plan import apply_roles, plan_roles
    from projectionist.ops.cli.database import database

    named = {duty: given for duty in Duty if (given := getattr(args, duty)) is not None}
    async with database("roles") as db:
        if args.act == "plan":
            return await plan_roles(db.connection, db.schema, named)
        act = Act(args.actor, args.reason or REASON)
        return await apply_roles(db.connection, db.schema, named, act, revoke=args.revoke)


def _document(plan: RolePlan, args: argparse.Namespace) -> dict[str, Any]:
    return {"applied": args.act == "apply", **msgspec.to_builtins(plan)}


def _lines(plan: RolePlan, args: argparse.Namespace) -> Iterator[str]:
    statements = plan.statements(revoke=args.revoke)
    if not plan.duties:
        yield "-- No role has a duty yet: name them, as in `projectionist roles plan --runner app_run`"
    for duty, roles in plan.duties.items():
        yield f"-- {duty}: {', '.join(roles)}"
    if not statements:
        yield "-- Nothing is lacking."
    yield from (f"{statement};" for statement in statements)
    if args.act == "apply" and statements:
        yield f"-- Done: {len(statements)} statements, in one transaction."
    if plan.surplus and not args.revoke:
        yield "-- Beyond their duties, and left as it is without --revoke:"
        yield from (f"-- {change.statement};" for change in plan.surplus)

"""`projectionist audit`: who has done what, when and why."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, lines, show_result

if TYPE_CHECKING:
    from projectionist.runner.admin.audit_chain import VerifiedChain

TOPIC = Topic.LOOK
HELP = "show the decisions and actions of operators: who, what, when, why"
EXAMPLE = """
projectionist audit                                  the newest fifty acts
projectionist audit --consumer OrderSummary --action skip
projectionist audit --about order/7                  every act on an aggregate, event or intent
projectionist audit --who ann --newer 86400 --json
projectionist audit --verify                         was an act changed or removed? (exit code 3 if so)
projectionist audit --verify --kept 812:5feceb66…   and are those up to place 812 the ones that had this hash?
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--consumer", metavar="NAME", help="only acts on this projection or reactor")
    parser.add_argument("--who", metavar="NAME", help="only acts of this person or process")
    parser.add_argument("--action", help="only this act, as the list shows it")
    parser.add_argument("--about", metavar="TEXT", help="only acts on what holds this text")
    parser.add_argument("--newer", type=float, metavar="SECONDS", help="only acts of so many last seconds")
    parser.add_argument(
        "--before",
        type=app_arguments.whole,
        metavar="NUMBER",
        help="only acts before this one, as --json numbers them",
    )
    parser.add_argument(
        "--limit", type=app_arguments.whole, default=50, help="so many, the newest (default: 50)"
    )
    parser.add_argument("--verify", action="store_true", help="check the chain of hashes instead of listing")
    parser.add_argument(
        "--kept",
        type=_place_and_hash,
        action="append",
        default=[],
        metavar="PLACE:HASH",
        help="with --verify: a hash that was kept elsewhere, as --verify and the log tell it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _place_and_hash(text: str) -> tuple[int, str]:
    place, _, told = text.partition(":")
    if not place.isdigit() or len(told) != 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not PLACE:HASH")
    return int(place), told.lower()


def run(args: argparse.Namespace) -> int:
    """Read it from the database of the settings."""
    if args.verify:
        return _verify(args)
    if args.kept:
        raise UsageError("--kept is read by --verify alone")
    if args.limit < 1:
        raise UsageError("--limit is at least one")
    rows = asyncio.run(_read(args))
    show_result(
        args,
        {"acts": rows},
        lines([_line(row) for row in rows], ("at", "who", "as", "action", "object", "reason", "detail")),
    )
    return Exit.DONE


def _verify(args: argparse.Namespace) -> int:
    chain = asyncio.run(_verified(args))
    if chain.broken is not None:
        show_result(args, msgspec.to_builtins(chain), f"The audit trail is broken: {chain.broken}.")
        return Exit.ATTENTION
    purged = f", those before place {chain.first} were purged" if chain.first > 1 else ""
    text = f"{chain.acts} acts, none changed or removed{purged}. Keep elsewhere: {chain.place}:{chain.hash}"
    show_result(args, msgspec.to_builtins(chain), text)
    return Exit.DONE


async def _verified(args: argparse.Namespace) -> VerifiedChain:
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.audit_chain import verify

    async with database("audit") as db:
        return await verify(db.connection, db.schema, known=dict(args.kept))


async def _read(args: argparse.Namespace) -> list[dict[str, Any]]:
    from projectionist.ops.cli.database import database
    from projectionist.runner.admin.audit_log import AuditFilter, acts

    chosen = AuditFilter(
        consumer=args.consumer,
        who=args.who,
        action=args.action,
        about=args.about,
        newer_s=args.newer,
        before=args.before,
    )
    async with database("audit") as db:
        return await acts(db.connection, db.schema, chosen, limit=args.limit)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    detail = ", ".join(f"{name} {value}" for name, value in row["detail"].items() if value is not None)
    client = f" at {row['client']}" if row["client"] else ""
    return row | {"detail": detail or "-", "as": f"{row['session_role'] or '-'}{client}"}

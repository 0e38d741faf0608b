"""`projectionist outbox`: see what waits, and decide about what waits for a person."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.content import reveal, without_content
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import (
    Exit,
    UsageError,
    cell,
    lines,
    note,
    say,
    say_json,
    show_result,
    table,
    warn,
)

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.cli.database import Database
    from projectionist.outbox.admin.intent_actions import IntentActionResult, IntentActions, IntentFilter

TOPIC = Topic.DECIDE
HELP = "list intents, show one, and retry, discard or resolve those that wait for a person"
EXAMPLE = """
projectionist outbox list                               what is not sent, by state, provider and error
projectionist outbox list --state dead --each           one line an intent
projectionist outbox lanes                              ordering keys that stand, behind what, until when
projectionist outbox show KEY                           one intent, its attempts, what was done by hand
projectionist outbox show KEY --reveal --reason "ticket 7"   its content and the answers too, on record
projectionist outbox retry --state dead --provider email --reason "quota raised"         a sample first
projectionist outbox retry --state dead --provider email --reason "quota raised" --all   1, 5, 20, 100, the rest
projectionist outbox resolve KEY --sent --reason "seen in the provider's dashboard"
projectionist outbox discard KEY --reason "customer left"
projectionist outbox webhook-secret hooks https://acme.example/in    what the receiver at this URL verifies with
"""

OPERATIONS = ("retry", "discard")
"""What is an operation where it is done to all that filters choose."""
ACTS = ("list", "lanes", "show", "retry", "discard", "resolve", "webhook-secret")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=ACTS, help="what to do")
    parser.add_argument(
        "keys",
        nargs="*",
        metavar="KEY",
        help="intents by key, or choose by the filters; webhook-secret: a provider and a URL",
    )
    parser.add_argument(
        "--state", action="append", metavar="STATE", help="only those in this state (may be repeated)"
    )
    parser.add_argument("--provider", help="only those of this provider")
    parser.add_argument("--destination", help="only those for this destination, or the [digest] of one")
    parser.add_argument("--intent", metavar="CLASS", help="only those of this Intent class")
    parser.add_argument("--consumer", help="only those of this projection or reactor")
    parser.add_argument("--error", help="only those with this error, as the list shows it, or its [digest]")
    parser.add_argument("--older-than", type=float, metavar="SECONDS", help="only those written so long ago")
    parser.add_argument("--each", action="store_true", help="list one line an intent instead of groups")
    parser.add_argument(
        "--limit", type=app_arguments.whole, default=50, help="lines of --each and of lanes (default: 50)"
    )
    parser.add_argument(
        "--all", action="store_true", help="act on all that the filters choose, not on a sample of one"
    )
    parser.add_argument(
        "--rate", type=float, default=200, help="--all: at most so many a second (default: 200)"
    )
    app_arguments.declare_wait(parser)
    outcome = parser.add_mutually_exclusive_group()
    outcome.add_argument("--sent", action="store_true", help="resolve: it was carried out")
    outcome.add_argument("--not-sent", action="store_true", help="resolve: it was not, send it again")
    parser.add_argument("--provider-id", metavar="ID", help="resolve --sent: the provider's own identifier")
    app_arguments.declare_act(parser, required=False)
    app_arguments.declare_reveal(parser, "body, errors, answers, destinations")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the database of the settings."""
    from projectionist.ops.cli.find_servers import settings

    _check(args)
    if args.act == "webhook-secret":
        return _show_secrets(settings(), args)
    return asyncio.run(_run(args))


def _check(args: argparse.Namespace) -> None:
    chosen = bool(_given(args))
    app_arguments.check_reveal(args)
    if args.act == "show" and len(args.keys) != 1:
        raise UsageError("show takes one KEY", remedy="`projectionist outbox list --each` shows keys")
    if args.act == "webhook-secret" and len(args.keys) != 2:
        raise UsageError(
            "webhook-secret takes a provider and a URL", remedy="As in: hooks https://acme.example/in"
        )
    if args.act in ("list", "lanes") and args.keys:
        raise UsageError(f"{args.act} takes no KEY", remedy="Use show for one intent")
    if args.act == "lanes" and _given(args).keys() - {"provider"}:
        raise UsageError("lanes takes no filter but --provider")
    if args.act in ("retry", "discard", "resolve"):
        if bool(args.keys) == chosen:
            raise UsageError(
                f"{args.act} takes keys or filters, one of the two",
                remedy="Name KEY…, or --state and the like",
            )
        app_arguments.need_reason(args, args.act)
    if not args.rate > 0 or not args.wait >= 0 or args.limit < 1:
        raise UsageError("--rate, --wait and --limit are not below zero, --rate and --limit not zero either")
    if args.act == "resolve" and not (args.sent or args.not_sent):
        raise UsageError(
            "resolve needs an outcome", remedy="Say --sent or --not-sent, as the provider shows it"
        )


def _given(args: argparse.Namespace) -> dict[str, Any]:
    names = ("state", "provider", "destination", "intent", "consumer", "error", "older_than")
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _filter(args: argparse.Namespace) -> IntentFilter:
    from projectionist.core.digest import sought
    from projectionist.core.states import IntentState
    from projectionist.outbox.admin.intent_actions import IntentFilter

    for state in args.state or ():
        if state not in set(IntentState):
            raise UsageError(f"there is no state {state!r}", remedy=f"States: {', '.join(IntentState)}")
    return IntentFilter(
        states=tuple(map(IntentState, args.state)) if args.state else None,
        provider=args.provider,
        destination=sought(args.destination),
        intent=args.intent,
        consumer=args.consumer,
        error=sought(args.error),
        older_s=args.older_than,
    )


def _show_secrets(settings: Settings, args: argparse.Namespace) -> int:
    from projectionist.outbox.providers.webhook_signer import secrets_of_url

    provider, url = args.keys
    secrets = [secret.reveal() for secret in secrets_of_url(settings, provider, url, os.environ)]
    show_result(args, {"provider": provider, "url": url, "secrets": secrets}, "\n".join(secrets))
    return Exit.DONE


async def _run(args: argparse.Namespace) -> int:
    from projectionist.ops.cli.database import database
    from projectionist.outbox.admin.intent_actions import IntentActions

    chosen = _filter(args)
    async with database("outbox") as db:
        verbs = IntentActions(db.connection, db.schema)
        if args.act == "list":
            return await _list(db.connection, db.schema, verbs, chosen, args)
        if args.act == "lanes":
            return await _show_lanes(db, verbs, args)
        if args.act == "show":
            return await _show(db.connection, db.schema, verbs, args)
        return await _change(db, verbs, chosen, args)


async def _list(
    connection: Connection, schema: str, verbs: IntentActions, chosen: IntentFilter, args: argparse.Namespace
) -> int:
    from projectionist.outbox.admin.intent_actions import FOR_A_PERSON
    from projectionist.outbox.admin.status import look

    groups = await verbs.groups(chosen)
    found = (await look(connection, schema)).troubles
    troubles = [one for one in found if chosen.provider in (None, one.about) or one.about == "outbox"]
    attention = msgspec.to_builtins(troubles)
    if args.each:
        found_rows = [dict(row) for row in await verbs.each(chosen, args.limit)]
        rows = await _told(connection, schema, verbs, {row["key"]: row for row in found_rows}, args)
        show_result(
            args,
            {"intents": rows, "attention": attention},
            lines(rows, ("key", "state", "provider", "destination", "class", "scope", "attempt", "error")),
        )
    else:
        of_samples = {group.sample: msgspec.structs.asdict(group) for group in groups}
        shown = await _told(connection, schema, verbs, of_samples, args)
        show_result(
            args,
            {"groups": shown, "attention": attention},
            lines(shown, ("count", "state", "provider", "oldest", "error", "sample")),
        )
    if troubles and not args.json:
        say("\n" + "\n".join(f"{one.about}: {one.text}. {one.remedy}" for one in troubles))
    waits = troubles or any(group.state in FOR_A_PERSON for group in groups)
    return Exit.ATTENTION if waits else Exit.DONE


async def _show_lanes(db: Database, verbs: IntentActions, args: argparse.Namespace) -> int:
    from projectionist.outbox.admin.intent_actions import FOR_A_PERSON

    lanes = await verbs.lanes(args.provider, args.limit)
    heads = {lane.key: msgspec.structs.asdict(lane) for lane in lanes}
    rows = await _told(db.connection, db.schema, verbs, heads, args)
    columns = ("behind", "provider", "ordering", "state", "attempt", "due", "error", "key")
    show_result(args, {"lanes": rows}, lines(rows, columns) or "no lane stands")
    if len(rows) == args.limit:
        note(f"The first {args.limit}, the longest first: --limit shows more")
    return Exit.ATTENTION if any(lane.state in FOR_A_PERSON for lane in lanes) else Exit.DONE


async def _told(
    connection: Connection,
    schema: str,
    verbs: IntentActions,
    found: dict[str, dict[str, Any]],
    args: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Return rows of a list by the keys they are of; what is content only on record."""
    if args.reveal:
        await reveal(connection, schema, (f"intent {key}" for key in found), args)
        return list(found.values())
    outcomes = await verbs.outcomes(list(found))
    return [without_content(row, outcomes.get(key, "")) for key, row in found.items()]


async def _show(connection: Connection, schema: str, verbs: IntentActions, args: argparse.Namespace) -> int:
    found = await verbs.show(args.keys[0])
    attempts, acts, body = found.pop("attempts"), found.pop("acts"), found.pop("body")
    shown = dict(found)
    if args.reveal:
        await reveal(connection, schema, [f"intent {found['key']}"], args)
        shown["body"] = bytes(body).decode()
    else:
        shown, attempts = without_content(shown), [without_content(one) for one in attempts]
    for name in ("hash", "wire_hash"):
        shown[name] = None if found[name] is None else bytes(found[name]).hex()
    if args.json:
        say_json({**shown, "attempts": attempts, "acts": acts})
        return Exit.DONE
    say(table((name, cell(value)) for name, value in shown.items() if value is not None))
    history = lines(attempts, ("attempt", "outcome", "status", "started", "took_s", "relay", "reason"))
    say("\n" + (history or "never tried"))
    if acts:
        say("\n" + lines(acts, ("at", "who", "action", "reason")))
    return Exit.DONE


async def _change(db: Database, verbs: IntentActions, chosen: IntentFilter, args: argparse.Namespace) -> int:
    from projectionist.core.operator import Act
    from projectionist.ops.cli.operation_progress import operate

    if args.all and not args.keys and args.act in OPERATIONS:
        return await operate(db, f"{args.act}_intents", chosen, args)
    act = Act(args.actor, args.reason)
    keys, left = args.keys, 0
    if not keys:
        count = sum(group.count for group in await verbs.groups(chosen))
        rows = await verbs.each(chosen, count if args.all else 1)
        keys, left = [row["key"] for row in rows], count - len(rows)
    done = await _done(verbs, keys, act, args)
    if args.json:
        say_json({"changed": done.changed, "unchanged": done.unchanged, "left": left})
    else:
        say(f"{args.act}: {len(done.changed)} done")
        for key, state in done.unchanged.items():
            say(f"{key} is {state}, which {args.act} does not change")
        if left:
            look = f"projectionist outbox show {keys[0]}"
            warn(f"That was a sample. Look at it (`{look}`), then say --all for {left} more.")
    return Exit.ATTENTION if done.unchanged or not done.changed else Exit.DONE


async def _done(
    verbs: IntentActions, keys: list[str], act: Any, args: argparse.Namespace
) -> IntentActionResult:
    if args.act == "retry":
        return await verbs.retry(keys, act)
    if args.act == "discard":
        return await verbs.discard(keys, act)
    if args.sent:
        return await verbs.resolve_sent(keys, act, provider_id=args.provider_id)
    return await verbs.resolve_not_sent(keys, act)

"""`projectionist run`: the consumers of an app, live."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments, event_loop
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, log_level, note

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition

TOPIC = Topic.RUN
HELP = "run the projections and reactors of an app until it is stopped"
EXAMPLE = """
projectionist run shop.app:app                       all consumers of the app
projectionist run shop.app:app --only OrderSummary   one of them
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    app_arguments.declare_listen(parser)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run these consumers only")
    parser.add_argument(
        "--allow-older-code",
        action="store_true",
        help="start although newer code had taken over: go back to this one",
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    from projectionist.core.log_format import configure
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.app import App

    found = app_arguments.listening(settings(), args.listen)
    app, _ = app_arguments.split(args, found.app)
    loaded = app_arguments.load(app, App)
    names = [definition.name for definition in loaded.definitions]
    found.refuse_strangers(consumers=names, providers=loaded.providers)
    configure(log_level(), form=found.telemetry.logs)
    loaded.warn_of_lacking_providers()
    return event_loop.run(_run(loaded.chosen(args.only), found, allow_older_code=args.allow_older_code))


async def _run(definitions: Sequence[Definition], settings: Settings, *, allow_older_code: bool) -> int:
    from projectionist.core.task_groups import unwrap_single_exception
    from projectionist.migrations import refuse_pending
    from projectionist.ops.cli.process_telemetry import telling
    from projectionist.runner.process.run import run as serve

    prepared = partial(refuse_pending, schema=settings.postgres.schema)
    note(f"running {', '.join(definition.name for definition in definitions)}; Ctrl-C stops")
    with unwrap_single_exception():
        async with telling(settings, "projectionist-run") as health:
            await serve(
                definitions, settings, allow_older_code=allow_older_code, prepared=prepared, health=health
            )
    return Exit.DONE

"""`projectionist run`: the consumers of an app, live."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments, event_loop
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, is_quiet, log_level, note

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.workers.link import WorkerLink
    from projectionist.projections.compiled.definition import ConsumerDefinition

TOPIC = Topic.RUN
HELP = "run the projections and reactors of an app until it is stopped"
EXAMPLE = """
projectionist run shop.app:app                       all consumers of the app
projectionist run shop.app:app --only OrderSummary   one of them
projectionist run shop.app:app --workers 4           in four processes, which are started again when they end
"""
MOST_WORKERS = 64


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
    parser.add_argument(
        "--workers",
        type=app_arguments.whole,
        metavar="N",
        help="run N processes, started again when they end; one log, one place for health and metrics",
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    from projectionist.core.log_format import configure
    from projectionist.ops.cli.find_servers import settings
    from projectionist.ops.workers.link import inherited
    from projectionist.runner.app import App

    upward = inherited(os.environ)
    if args.workers is not None and not 1 <= args.workers <= MOST_WORKERS:
        raise UsageError(f"--workers {args.workers} is not a number from 1 to {MOST_WORKERS}")
    found = app_arguments.listening(settings(), args.listen)
    app, _ = app_arguments.split(args, found.app)
    loaded = app_arguments.load(app, App)
    names = [definition.name for definition in loaded.definitions]
    found.refuse_strangers(consumers=names, providers=loaded.providers)
    configure(log_level(), form=found.telemetry.logs, worker=None if upward is None else upward.worker)
    chosen = loaded.chosen(args.only)
    if upward is None:
        loaded.warn_of_lacking_providers()
        note(f"running {', '.join(definition.name for definition in chosen)}; Ctrl-C stops")
    if args.workers is not None:
        return event_loop.run(_supervise(args, app, chosen, found))
    return event_loop.run(_run(chosen, found, upward, allow_older_code=args.allow_older_code))


async def _run(
    definitions: Sequence[ConsumerDefinition],
    settings: Settings,
    upward: WorkerLink | None,
    *,
    allow_older_code: bool,
) -> int:
    from projectionist.core.task_groups import unwrap_single_exception
    from projectionist.migrations import refuse_unprepared
    from projectionist.ops.cli.process_telemetry import telling
    from projectionist.runner.process.run import run as serve

    prepared = partial(refuse_unprepared, postgres=settings.postgres)
    with unwrap_single_exception():
        async with telling(settings, "projectionist-run", upward) as health:
            await serve(
                definitions, settings, allow_older_code=allow_older_code, prepared=prepared, health=health
            )
    return Exit.DONE


async def _supervise(
    args: argparse.Namespace, app: str, definitions: Sequence[ConsumerDefinition], settings: Settings
) -> int:
    from projectionist.ops.cli.process_telemetry import telling
    from projectionist.ops.workers.worker import started
    from projectionist.ops.workers.worker_supervisor import SupervisorHealth, WorkerSupervisor
    from projectionist.runner.process.run import refuse_unmonitored

    refuse_unmonitored(definitions, settings)
    words = ["run", app]
    words += ["--only", *args.only] if args.only else []
    words += ["--allow-older-code"] if args.allow_older_code else []
    words += ["--quiet"] if is_quiet() else []
    start = partial(started, words=words, watchdog_timeout_s=settings.run.watchdog_timeout_s)
    supervisor = WorkerSupervisor(args.workers, start, settings.run)
    async with telling(settings, "projectionist-run", SupervisorHealth(supervisor, settings)) as health:
        await supervisor.run(health)
    return Exit.DONE

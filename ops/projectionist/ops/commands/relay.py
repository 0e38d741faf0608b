"""`projectionist relay`: carry out the intents of an app."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments, event_loop
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, log_level, note

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App

TOPIC = Topic.RUN
HELP = "send the intents of an app to its providers until it is stopped"
EXAMPLE = """
projectionist relay shop.app:app    all providers of the app; several relays share the work
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    app_arguments.declare_listen(parser)


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
    return event_loop.run(_run(loaded, names, found))


async def _run(app: App, consumers: list[str], settings: Settings) -> int:
    from projectionist.core.task_groups import unwrap_single_exception
    from projectionist.migrations import refuse_unprepared
    from projectionist.ops.cli.process_telemetry import telling
    from projectionist.outbox.relay.relay import run as serve

    prepared = partial(refuse_unprepared, postgres=settings.postgres)

    def begun() -> None:
        note(f"relaying to {', '.join(app.providers)}; Ctrl-C stops")

    with unwrap_single_exception():
        async with telling(settings, "projectionist-relay") as health:
            await serve(
                app.providers,
                settings,
                consumers=consumers,
                prepared=prepared,
                health=health,
                begun=begun,
            )
    return Exit.DONE

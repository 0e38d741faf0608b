"""`projectionist observe`: tell where consumers and the outbox stand, whoever runs them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from projectionist.core.errors import SettingsError
from projectionist.ops.cli import app_arguments, event_loop
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, log_level, note

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition

TOPIC = Topic.RUN
HELP = "export the state of consumers and the outbox, also while no process runs them, until it is stopped"
EXAMPLE = """
projectionist observe shop.app:app                    the consumers of an app, started or not, and the outbox
projectionist observe shop.app:app billing.app:app    of several apps that share a schema
projectionist observe                                 without `app` in the settings: all that are registered
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "apps",
        nargs="*",
        metavar="APP",
        help="module:attribute (default: `app` in the settings, else every registered consumer)",
    )


def run(args: argparse.Namespace) -> int:
    """Look until SIGTERM or SIGINT."""
    from projectionist.core.log_format import configure
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.app import App

    found = settings()
    if found.telemetry.metrics == "none":
        raise SettingsError(
            "[telemetry] names no exporter, so there is nothing to export to",
            remedy='Set exporter = "prometheus", or an endpoint for OTLP',
        )
    named: Sequence[str] = args.apps or ([found.app] if found.app else [])
    loaded = [app_arguments.load(app, App) for app in named]
    if named:
        found.refuse_strangers(
            consumers=[definition.name for app in loaded for definition in app.definitions],
            providers=[name for app in loaded for name in app.providers],
        )
    chosen = [definition for app in loaded for definition in app.definitions] if named else None
    configure(log_level(), form=found.telemetry.logs)
    return event_loop.run(_run(chosen, found))


async def _run(definitions: Sequence[ConsumerDefinition] | None, settings: Settings) -> int:
    from projectionist.migrations import MigrationError, plan
    from projectionist.ops.cli.process_telemetry import telling
    from projectionist.runner.process.observe import observe

    async def prepared(connection: Connection) -> None:
        if await plan(connection, settings.postgres.schema):
            raise MigrationError(
                "the database lacks tables of this release", remedy="Run `projectionist migrate`"
            )

    names = None if definitions is None else ", ".join(definition.name for definition in definitions)
    note(f"observing {names or 'every registered consumer'}; Ctrl-C stops")
    async with telling(settings, "projectionist-observe") as health:
        await observe(definitions, settings, prepared=prepared, health=health)
    return Exit.DONE

"""`projectionist demo`: the main job, played on servers that exist only for it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, note, say, say_json, styled, table

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.demo.play import DemoResult

TOPIC = Topic.DEVELOP
HELP = "play a small shop on a PostgreSQL and a NATS that are started for it and deleted after it"
EXAMPLE = """
projectionist demo                  some 20,000 events, among them duplicates, reordered and lost ones
projectionist demo --orders 500     a short one
projectionist demo --console        keeps the shop up, with four things to mend by hand in a browser
"""

NEXT = """
What to try next
  the shop's sources, to copy:   python -c "import projectionist.ops.demo.shop as s; print(*s.__path__)"
  servers of a project's own:    projectionist dev up
  your app on them:              projectionist migrate shop.app:app && projectionist run shop.app:app
  where everything stands:       projectionist status --watch
  in a browser, and mend it:     projectionist demo --console   (ten minutes: docs/guide/console.md)
"""


TOUR = """
Four things wait for you in the shop: a payment that cannot be applied, one that was lost, a mail to nowhere, a
message that nobody can read.
docs/guide/console.md leads through them in ten minutes. Ctrl-C ends the shop and deletes its data.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--orders",
        type=app_arguments.whole,
        default=4000,
        metavar="N",
        help="how many orders (default: 4000)",
    )
    parser.add_argument("--seed", type=app_arguments.whole, default=7, help="which history (default: 7)")
    parser.add_argument(
        "--console", action="store_true", help="keep the shop up afterwards, with a console, until Ctrl-C"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:8710",
        help="where the console is (default: 127.0.0.1:8710)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")


def run(args: argparse.Namespace) -> int:
    """Start both servers in a temporary folder, play, compare, delete everything."""
    from projectionist.core.settings.secret import Url
    from projectionist.core.settings.settings import Nats, Postgres, Settings
    from projectionist.ops.commands import console
    from projectionist.ops.embedded import temporary

    place = console.place(args.listen)
    if args.console:
        console.require_console()
    note("Starting a PostgreSQL (fsync on) and a NATS server (syncing every two minutes, its default).")
    with temporary(durable=True) as servers:
        addresses = servers.up()
        postgres = Postgres(url=Url(addresses.postgres_url), correlation_index=True)
        settings = Settings(postgres=postgres, nats=Nats(url=(Url(addresses.nats_url),)))
        outcome = asyncio.run(_play(settings, args))
        if args.console:
            note(_summary(outcome))
            note(TOUR)
            asyncio.run(_keep_up(settings, place))
        note("Stopping both and deleting their data.")
    well = not any(outcome.differing.values()) and not outcome.doubled
    if args.json:
        say_json(outcome)
    else:
        say(_summary(outcome))
        if well:
            note(NEXT)
    return Exit.DONE if well else Exit.FAILED


async def _keep_up(settings: Settings, place: tuple[str, int]) -> None:
    from projectionist.ops.commands.console import serve
    from projectionist.ops.demo.play import APP
    from projectionist.ops.demo.shop.app import app
    from projectionist.ops.demo.trouble import keep_up

    actor = app_arguments.actor()
    await keep_up(settings, lambda told: serve(app, APP, settings, place, actor=actor, told_to_end=told))


async def _play(settings: Settings, args: argparse.Namespace) -> DemoResult:
    from projectionist.ops.demo.play import play
    from projectionist.ops.demo.shop.app import app
    from projectionist.runner.process.migrate_app import migrate_app

    done = await migrate_app(settings, app.definitions, apply=True)
    note(f"Made the tables of {len(done.read_models)} consumers; two runners share the work, a relay sends.")
    view = DemoView(settings.postgres.schema)
    return await play(settings, args.orders, args.seed, view.look)


class DemoView:
    """The status of all consumers, drawn over itself on a terminal and now and then as lines elsewhere."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._height = 0

    async def look(self, connection: Connection) -> None:
        """Draw it as it is now."""
        from projectionist.ops.commands.status import consumer_table
        from projectionist.runner.consumers.status import consumers

        text = consumer_table(await consumers(connection, self._schema))
        if sys.stderr.isatty():
            note(f"\x1b[{self._height}A\x1b[J{text}" if self._height else text)
            self._height = text.count("\n") + 1
        elif self._height == 0:
            note("Publishing, with duplicates, reordered and lost events; projecting beside it…")
            self._height = 1


def _summary(outcome: DemoResult) -> str:
    counted = outcome.outcomes
    summary = (
        f"{outcome.sent} messages published and settled in {outcome.seconds:.1f} s: "
        f"{counted.get('duplicate', 0)} duplicates recognised, {counted.get('parked_gap', 0)} parked behind a gap "
        f"and drained.\n{counted.get('intents', 0)} mails asked for, {outcome.mails} sent, {outcome.doubled} twice.\n"
        f"The orders were then rebuilt from {outcome.rebuilt} events, without another mail."
    )
    rows = [
        (
            f"  {name}",
            f"{count} rows",
            styled("equal", "good") if not wrong else styled(f"{wrong} differ", "bad"),
        )
        for (name, count), wrong in zip(outcome.rows.items(), outcome.differing.values(), strict=True)
    ]
    return f"{summary}\nCompared with an independent fold of the history:\n{table(rows)}"

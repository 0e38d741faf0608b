"""`projectionist models`: classes of another library for the views of an app."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.core.settings.settings import Settings
    from projectionist.ops.inspect.row_models import RowModel
    from projectionist.projections.compiled.definition import Definition

TOPIC = Topic.DEVELOP
HELP = "write models of the views for programs that read them: SQLAlchemy, Django or msgspec"
EXAMPLE = """
projectionist models shop.app:app --sqlalchemy > views.py           every view of the app
projectionist models shop.app:app OrderSummary --django > models.py
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser, names="the projections (default: all)")
    library = parser.add_mutually_exclusive_group(required=True)
    for name in ("sqlalchemy", "django", "msgspec"):
        text = f"write classes of {name}"
        library.add_argument(f"--{name}", dest="library", action="store_const", const=name, help=text)


def run(args: argparse.Namespace) -> int:
    """Write them. A server is asked for the columns of SqlProjections alone."""
    from projectionist.core.settings.settings import settings
    from projectionist.ops.inspect.row_models import of_class, source
    from projectionist.runner.app import App

    found = settings()
    name, names = app_arguments.split(args, found.app)
    chosen = app_arguments.load(name, App).chosen_views(names)
    models = [of_class(d, d.table) for d in chosen if d.table is not None]
    models += asyncio.run(_of_tables(found, [d for d in chosen if d.tables]))
    say(source(args.library, name, models).rstrip("\n"))
    return Exit.DONE


async def _of_tables(found: Settings, definitions: Sequence[Definition]) -> list[RowModel]:
    from projectionist.core.postgres.connections import connect
    from projectionist.ops.inspect.row_models import of_table
    from projectionist.runner.database.queries import Queries

    if not definitions:
        return []
    models = []
    connection = await connect(found.postgres, application_name="projectionist models")
    try:
        queries = Queries(connection, found.postgres.schema)
        for d in definitions:
            for table in d.owned:
                if (model := await of_table(queries, d, table)) is None:
                    warn(f"left out: {table.public} is not in the database yet, or has no primary key")
                else:
                    models.append(model)
    finally:
        await connection.close()
    return models

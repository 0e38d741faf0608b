"""The act that begins a preview: what would the code of this console make of live rows?"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from projectionist.console.access.sessions import Role
from projectionist.console.acts.verb import Answer, Field, Given, Question, Verb, needed, number
from projectionist.console.console_database import broker
from projectionist.console.pages import TO_SAY, command_line
from projectionist.core.aggregates import parted
from projectionist.core.operator import NotThere
from projectionist.ops.cli.database import database
from projectionist.runner.database.queries import Queries, record_act
from projectionist.runner.operations.long_act import long_act
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.preview.preview import Previewer
from projectionist.runner.rebuild.build_lease import owner

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.history.progress import Progress

KIND = "preview"
USUAL, MOST = 200, 1_000
"""So many rows by chance; the command line takes more."""


def preview_path(name: str) -> str:
    """Return where the page of a preview is."""
    return f"/preview?{urlencode({'consumer': name})}"


async def _ask(db: ConsoleDatabase, given: Given) -> Question:
    definition = db.definition(needed(given, "consumer"))
    return Question(
        title=f"Preview {definition.name}",
        fact="Rows are folded again by the code of this console, from the events that live has applied to them, and "
        "compared with the live rows.",
        says="Nothing is written, no effect is made, and live goes on meanwhile.",
        label=f"Preview {definition.name}",
        command=command_line("preview", db.app_name, definition.name, "--sample", TO_SAY),
        back=preview_path(definition.name),
        fields=[
            Field("sample", "Rows", str(USUAL), f"By chance, {MOST:,} at most."),
            Field(
                "aggregate", "Aggregate", says="The rows of this one alone, like order/7; empty: by chance."
            ),
        ],
    )


async def _begin(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, sample = db.definition(needed(given, "consumer")), number(given, "sample")
    if not 0 < sample <= MOST:
        raise NotThere(f"between 1 and {MOST:,} rows are folded here", remedy="The command line takes more")
    aggregate = given.get("aggregate", "").strip() or None
    if aggregate is not None:
        parted(aggregate)
    settings, who = db.settings, owner()
    about = {"consumer": definition.full_name, "aggregate" if aggregate else "sample": aggregate or sample}

    async def fold(progress: Progress) -> object:
        async with database("console preview", settings) as opened, broker(settings) as client:
            await _record(
                Queries(opened.connection, opened.schema), definition, aggregate or f"{sample} rows", act
            )
            await opened.connection.execute(
                "set default_transaction_read_only = on; set statement_timeout = 0"
            )
            queries = Queries(opened.connection, opened.schema)
            given = (settings.postgres, OperationKind.PREVIEW, about, act, who, progress)
            async with long_act(*given) as told:
                # The page leaves values out until somebody has them revealed, on record.
                previewer = Previewer(queries, definition, settings, client, told, reveal=True)
                return await previewer.run(sample, aggregate)
        raise AssertionError("the task group neither returned nor raised")

    db.works.begin(KIND, definition.name, act, fold, who)
    return Answer(f"The preview of {definition.name} has begun.", preview_path(definition.name))


async def _record(queries: Queries, definition: Definition, about: str, act: Act) -> None:
    """Put on record that somebody has this previewed, before it is, and not where it was refused."""
    row = await queries.row("select_view", definition.name)
    if row is not None:  # of one that is not there yet the audit knows no name
        await record_act(queries, row["number"], "preview", about, act)


VERBS = {"preview": Verb(Role.OPERATE, _ask, _begin)}

"""What acts and pages work with: a connection, and beside it the app, the broker and what goes on in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from projectionist.core.nats import connections
from projectionist.core.operator import NotThere
from projectionist.ops.cli.database import Database
from projectionist.runner.database.queries import Queries

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.console.background_work import BackgroundWorks
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.app import App


@dataclass(frozen=True)
class ConsoleDatabase(Database):
    """A connection for one page."""

    app: App
    app_name: str
    """What command lines call it."""
    works: BackgroundWorks

    @property
    def queries(self) -> Queries:
        """Return the statements of history on the connection."""
        return Queries(self.connection, self.schema)

    def definition(self, name: str) -> Definition:
        """Return the consumer of this name as the app has it; NotThere if it has none."""
        return definition_of(self.app, name)

    def consumer(self, name: str) -> ConsumerDefinition:
        """Return the consumer of this name, or the set of which this is a view; NotThere if the app has none."""
        for one in self.app.definitions:
            if one.name == name:
                return one
        return self.app.definition(self.definition(name).consumer)

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Client]:
        """Connect to NATS, for as long as something is asked there."""
        async with broker(self.settings) as client:
            yield client


def definition_of(app: App, name: str) -> Definition:
    """Return the view of this name as an app has it; NotThere if it has none."""
    for one in app.views:
        if name in {one.name, one.full_name}:
            return one
    raise NotThere(
        f"the app of this console has no consumer {name!r}",
        remedy="Its rows are made by the code of another app: start a console with that one",
    )


@asynccontextmanager
async def broker(settings: Settings) -> AsyncIterator[Client]:
    """Connect to NATS as a console."""
    client = await connections.connect(settings.nats, name="projectionist console", within_s=3)
    try:
        yield client
    finally:
        await client.close()

"""Makes the tables of a scene, as `projectionist migrate` would, and registers the consumers of an app."""

from __future__ import annotations

import asyncio
import sys

from projectionist.bench import variants
from projectionist.core.postgres import connections
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.settings import load
from projectionist.migrations import migrate
from projectionist.runner.app import App
from projectionist.runner.read_models.migrate import ReadModels


async def prepare(app: App) -> None:
    """Do it in the schema of the settings."""
    postgres = load(None).postgres
    connection = await connections.connect(postgres, application_name="bench prepare")
    await migrate(connection, postgres.schema)
    await connection.execute(Statements("projectionist.bench", postgres.schema)["make_rates"])
    models = ReadModels(connection, postgres.schema)
    await models.apply(app.definitions, await models.plan(app.definitions))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(prepare(getattr(variants, sys.argv[1])))

"""Every statement of every part is prepared against the migrated database: a wrong name fails here first."""

from __future__ import annotations

import pkgutil
import re
from importlib.resources import files

import asyncpg
import pytest

import projectionist
from projectionist.core.postgres.statements import SCHEMA, Statements

pytestmark = pytest.mark.asyncio

MIGRATION = re.compile(r"\d{4}_")


def packages() -> list[str]:
    """Every package of ours that holds statements."""

    def fail(name: str) -> None:
        raise ImportError(f"{name} cannot be imported")

    modules = pkgutil.walk_packages(projectionist.__path__, "projectionist.", onerror=fail)
    return [each.name for each in modules if each.ispkg and files(each.name).joinpath("sql").is_dir()]


def statements() -> list[tuple[str, str]]:
    return [
        (package, name)
        for package in packages()
        for name in Statements(package, "projectionist")
        if not MIGRATION.match(name)
    ]


@pytest.mark.parametrize("package", packages())
async def test_every_statement_can_be_prepared(database: str, package: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        for name, text in Statements(package, "projectionist").items():
            if not MIGRATION.match(name):
                try:
                    await connection.prepare(text)
                except asyncpg.PostgresError as error:
                    pytest.fail(f"{package}/sql/{name}.sql: {error}")
    finally:
        await connection.close()


@pytest.mark.parametrize(("package", "name"), statements())
async def test_a_statement_says_what_it_answers_and_stands_alone(package: str, name: str) -> None:
    text = files(package).joinpath("sql", f"{name}.sql").read_text("utf-8")
    assert text.startswith("-- "), "the first line says what it answers"
    assert ";" not in re.sub(r"--.*|'[^']*'", "", text), "one statement a file"
    assert "projectionist." not in re.sub(r"--.*", "", text), f"the schema is written {SCHEMA}"


async def test_packages_with_statements_are_found() -> None:
    assert {"projectionist.core.postgres", "projectionist.migrations"} <= set(packages())

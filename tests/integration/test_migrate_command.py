"""`projectionist migrate` from its arguments to its exit code, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from projectionist.migrations.released import released
from projectionist.ops.cli import main
from projectionist.ops.terminal import Exit

NAMES = [migration.name for migration in released("fresh")]

Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """Runs `projectionist migrate` on an empty schema; answers its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__URL", database)
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__SCHEMA", "fresh")
    monkeypatch.setenv("PROJECTIONIST_NATS__URL", "nats://127.0.0.1:1")

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["migrate", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def test_check_asks_for_attention_until_everything_is_applied(said: Said) -> None:
    code, text = said("--check")
    assert (code, text.splitlines()) == (
        Exit.ATTENTION,
        [f"pending in schema fresh: {name}" for name in NAMES],
    )
    code, text = said()
    assert (code, text.splitlines()) == (Exit.DONE, [f"applied to schema fresh: {name}" for name in NAMES])
    assert said("--check") == (Exit.DONE, "Nothing is pending in schema fresh.\n")
    assert said() == (Exit.DONE, "Schema fresh is up to date.\n")


def test_a_program_can_read_every_answer(said: Said) -> None:
    assert json.loads(said("--check", "--json")[1]) == {"schema": "fresh", "pending": NAMES}
    steps = json.loads(said("--plan", "--json")[1])
    assert [step["name"] for step in steps["pending"]] == NAMES
    assert json.loads(said("--json")[1]) == {"schema": "fresh", "applied": NAMES}
    assert json.loads(said("--json")[1]) == {"schema": "fresh", "applied": []}


def test_a_plan_is_sql_that_does_the_same(said: Said, database: str) -> None:
    code, script = said("--plan")
    assert code == Exit.DONE
    assert said("--check")[0] == Exit.ATTENTION, "a plan changes nothing"

    async def by_hand() -> None:
        connection = await asyncpg.connect(database)
        await connection.execute(script)
        await connection.close()

    asyncio.run(by_hand())
    assert said("--plan") == (Exit.DONE, "Nothing is pending in schema fresh.\n")
    assert said() == (Exit.DONE, "Schema fresh is up to date.\n")


def test_a_database_that_cannot_be_reached_is_one_line(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__URL", "postgresql://u:c4n4ry@127.0.0.1:1/shop")
    code, text = said()
    assert code == Exit.FAILED
    assert text.startswith("error: PostgreSQL at postgresql://***@127.0.0.1:1/shop cannot be reached")
    assert "c4n4ry" not in text
    assert len(text.splitlines()) == 1


def test_without_a_url_the_error_says_how_to_get_one(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROJECTIONIST_POSTGRES__URL")
    code, text = said()
    assert code == Exit.FAILED
    assert "projectionist dev up" in text


def test_plan_and_check_together_are_wrong_usage(said: Said) -> None:
    with pytest.raises(SystemExit) as ended:
        said("--plan", "--check")
    assert ended.value.code == Exit.USAGE

"""`projectionist status` against real servers, and against none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.servers import Servers

from projectionist.ops.cli.output import Exit
from projectionist.ops.main import main

Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(
    servers: Servers,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    """Runs `projectionist status` with the variables given; answers its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        given = {
            "PROJECTIONIST_POSTGRES__URL": database,
            "PROJECTIONIST_NATS__URL": servers.nats_url,
        } | variables
        for name, value in given.items():
            if value:
                monkeypatch.setenv(name, value)
        code = main(["status", *arguments])
        return code, capsys.readouterr().out

    return run


def test_all_is_well_on_a_migrated_database(said: Said) -> None:
    code, text = said()
    assert code == Exit.DONE
    assert "postgres       18." in text
    assert "schema projectionist is up to date" in text
    assert "nats           2." in text
    assert "postgres:" not in text.replace("//***@", "")


def test_programs_get_the_same_as_json(said: Said) -> None:
    code, text = said("--json")
    status = json.loads(text)
    assert (code, status["well"]) == (Exit.DONE, True)
    assert [part["name"] for part in status["parts"]] == ["postgres", "migrations", "nats"]


def test_pending_migrations_need_attention(said: Said) -> None:
    code, text = said(PROJECTIONIST_POSTGRES__SCHEMA="fresh")
    assert code == Exit.ATTENTION
    assert "0001_consumers" in text
    assert "pending in schema fresh. Run `projectionist migrate`" in text


@pytest.mark.parametrize(
    ("variable", "url", "told"),
    [
        ("PROJECTIONIST_POSTGRES__URL", "postgresql://127.0.0.1:1/x", "cannot be reached"),
        ("PROJECTIONIST_POSTGRES__URL", "", "postgres.url is not set"),
        ("PROJECTIONIST_NATS__URL", "nats://127.0.0.1:1", "nats://127.0.0.1:1"),
        ("PROJECTIONIST_NATS__URL", "", "nats.url is not set"),
    ],
)
def test_what_is_missing_is_said_beside_what_is_there(said: Said, variable: str, url: str, told: str) -> None:
    code, text = said("--json", **{variable: url})
    status = json.loads(text)
    assert (code, status["well"]) == (Exit.ATTENTION, False)
    [bad] = [part for part in status["parts"] if part["problem"]]
    assert told in bad["problem"]
    assert all(part["shown"] for part in status["parts"] if part is not bad)

"""Each command has a duty, or asks no database; the page about roles says which."""

from __future__ import annotations

from pathlib import Path

from projectionist.ops.cli.command_duties import COMMANDS
from projectionist.ops.main import found

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "roles.md"


def test_each_command_says_which_duty_it_takes() -> None:
    assert {name for name, _ in found()} == set(COMMANDS)


def test_the_page_names_each_command_with_the_duty_it_takes() -> None:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.count("|") == 4]
    lines = {duty.strip(): commands for _, duty, _, commands, _ in rows}
    for command, duty in COMMANDS.items():
        assert duty is None or f"`{command}`" in lines[duty], command

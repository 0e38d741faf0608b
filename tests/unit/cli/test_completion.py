"""Shells complete what the parsers take, and nothing else. Each script is run by its own shell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from projectionist.ops import main
from projectionist.ops.cli import completion

KNOWN = {"": ["run", "parked", "-h"], "run": ["--only"], "parked": ["list", "retry", "--all"]}


def test_the_words_are_those_of_the_parsers() -> None:
    words = completion.words(main.parser())
    assert {name for name, _ in main.found()} <= set(words[""])
    assert {"up", "down", "status", "reset", "--json"} <= set(words["dev"])
    assert {"list", "retry", "--reason"} <= set(words["parked"])
    assert "--version" not in words["run"]


def test_no_word_of_any_parser_needs_quoting() -> None:
    every = {word for after in completion.words(main.parser()).values() for word in after}
    assert [word for word in every if not re.fullmatch(r"[\w-]+", word)] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["r"], ["run"]),
        (["parked", ""], ["list", "retry", "--all"]),
        (["parked", "retry", "--"], ["--all"]),
        (["run", "parked", "--"], ["--only"]),
        (["nonsense", ""], []),
    ],
)
def test_bash_completes(tmp_path: Path, line: list[str], expected: list[str]) -> None:
    script = tmp_path / "completion"
    script.write_text(completion.script("bash", "projectionist", KNOWN))
    line_of_words = " ".join(f"'{word}'" for word in ["projectionist", *line])
    asked = f"source {script}; COMP_WORDS=({line_of_words}); COMP_CWORD={len(line)}; _projectionist;"
    asked += ' printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-uc", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
    assert done.stderr == ""


@pytest.mark.skipif(
    not shutil.which("fish"), reason="no fish on this machine: its syntax can be checked by fish alone"
)
@pytest.mark.parametrize(
    ("line", "expected"), [("par", "parked"), ("parked re", "retry"), ("parked retry --a", "--all")]
)
def test_fish_completes(tmp_path: Path, line: str, expected: str) -> None:
    script = tmp_path / "completion.fish"
    script.write_text(completion.script("fish", "projectionist", KNOWN))
    asked = f"source {script}; complete -C 'projectionist {line}'"
    done = subprocess.run(["fish", "-Nc", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [expected]


@pytest.mark.skipif(
    not shutil.which("zsh"), reason="no zsh on this machine: its syntax can be checked by zsh alone"
)
def test_zsh_takes_the_script(tmp_path: Path) -> None:
    script = tmp_path / "_projectionist"
    script.write_text(completion.script("zsh", "projectionist", KNOWN))
    asked = f"source {script}; print $_comps[projectionist]"
    done = subprocess.run(["zsh", "-fc", asked], capture_output=True, text=True, check=True)
    assert "_bash_complete" in done.stdout

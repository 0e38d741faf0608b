"""Completion for shells: every command with its acts and options, read off the parsers themselves.

The scripts are static: no shell waits for Python.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping

Words = Mapping[str, list[str]]
"""What may follow each command; `""` has the commands themselves."""


def words(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Return what may follow each command of this parser."""
    found = {"": _words(parser)}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to ask a parser what it takes
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found |= {name: _words(sub) for name, sub in action.choices.items()}
    return found


def script(shell: str, program: str, known: Words) -> str:
    """Return the completion script for one of the `SHELLS`."""
    return _SHELLS[shell](program, known)


def _words(parser: argparse.ArgumentParser) -> list[str]:
    actions = parser._actions  # noqa: SLF001
    choices = [
        str(choice) for action in actions if not action.option_strings for choice in action.choices or ()
    ]
    return choices + [option for action in actions for option in action.option_strings]


def _bash(program: str, known: Words) -> str:
    cases = "\n".join(
        f"        {command}) words={_quoted(after)} ;;" for command, after in known.items() if command
    )
    return f"""\
_{program}() {{
    local words={_quoted(known[""])}
    if ((COMP_CWORD > 1)); then
        case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _{program} {program}
"""


def _zsh(program: str, known: Words) -> str:
    head = "autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit -u\nbashcompinit\n"
    return f"#compdef {program}\n{head}{_bash(program, known)}"


def _fish(program: str, known: Words) -> str:
    lines = []
    for command, after in known.items():
        condition = f"__fish_seen_subcommand_from {command}" if command else "__fish_use_subcommand"
        lines.append(f"complete -c {program} -n {shlex.quote(condition)} -a {_quoted(after)}")
    return "\n".join(lines) + "\n"


def _quoted(words: list[str]) -> str:
    return shlex.quote(" ".join(words))


_SHELLS: Mapping[str, Callable[[str, Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
SHELLS = tuple(_SHELLS)

"""The topics under which `projectionist --help` lists the commands, and the text of that list."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from enum import StrEnum

_NAME, _WIDTH = 14, 100


class Topic(StrEnum):
    """The job a person is about to do. The values are the headings, in the order of their listing."""

    DEVELOP = "develop"
    RUN = "run"
    LOOK = "look"
    DECIDE = "decide"
    HISTORY = "history"


def overview(commands: Iterable[tuple[str, Topic, str]]) -> str:
    """Return all commands (name, topic, help) under the headings of their topics."""
    sections: dict[Topic, list[str]] = {topic: [] for topic in Topic}
    for name, topic, text in commands:
        sections[topic].append(_entry(name, text))
    return "\n\n".join("\n".join([f"{topic}:", *entries]) for topic, entries in sections.items() if entries)


def _entry(name: str, text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=f"  {name:<{_NAME}}", subsequent_indent=" " * (_NAME + 2)
    )

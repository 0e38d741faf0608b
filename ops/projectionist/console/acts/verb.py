"""An act as the console offers it: the page before it, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from projectionist.console.access.sessions import Role
from projectionist.core.operator import NotThere

if TYPE_CHECKING:
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act

Given = Mapping[str, str]
"""What an act is about, as the address of its page says it; with what the form adds where it is done."""


class Option(msgspec.Struct, frozen=True):
    """A box to tick, or one of several ways to do it."""

    name: str
    value: str
    label: str
    says: str = ""
    kind: str = "checkbox"
    checked: bool = False


class Field(msgspec.Struct, frozen=True):
    """Something to fill in."""

    name: str
    label: str
    value: str = ""
    says: str = ""
    long: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the page before an act says."""

    title: str
    fact: str
    """How many, and what happens to them."""
    says: str
    """What follows, what does not happen, whether it can be taken back."""
    label: str
    command: str
    back: str
    matches: int = 1
    """How many it touches: where that has risen when it is to be done, nothing is done."""
    about: str = ""
    """What the number does not tell apart, such as a build: where that is another one by then, nothing is done."""
    options: list[Option] = []
    fields: list[Field] = []
    facts: dict[str, object] = {}
    """What it would do and cost, by name."""


class Answer(msgspec.Struct, frozen=True):
    """What an act has done, and the page to go on with."""

    text: str
    href: str


class Verb(msgspec.Struct, frozen=True):
    """One act."""

    role: Role
    ask: Callable[[ConsoleDatabase, Given], Awaitable[Question]]
    do: Callable[[ConsoleDatabase, Given, Act], Awaitable[Answer]]


def shown(given: Given) -> int:
    """Return how many the page before the act has shown, as its form says; 0 where it says nothing."""
    told = given.get("seen", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 19 else 0


def fewer(found: int, given: Given) -> str:
    """Say where an act has found fewer than were shown; more it leaves alone."""
    return f" {shown(given):,} were shown: the others went on meanwhile." if found < shown(given) else ""


def needed(given: Given, name: str) -> str:
    """Return a value that the address has to hold."""
    value = given.get(name, "")
    if not value:
        raise NotThere(f"the address says no {name}", remedy="Come here by a button of a page")
    return value


def numbers(given: Given, name: str) -> list[int]:
    """Return the whole numbers of a value."""
    words = needed(given, name).split()
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise NotThere(f"{name} is no number", remedy="Come here by a button of a page")
    return [int(word) for word in words]


def number(given: Given, name: str) -> int:
    """Return the whole number that a value is."""
    found = numbers(given, name)
    if len(found) != 1:
        raise NotThere(f"{name} is no number", remedy="Come here by a button of a page")
    return found[0]

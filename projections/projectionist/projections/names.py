"""Names that must be one consumer's alone: consumers, and tables, which share our schema."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from projectionist.core.errors import DefinitionError

_owners: dict[str, str] = {}


def enter(cls: type, claims: Iterable[str]) -> None:
    """Take `claims` for an importable class; the same class defined again is a reload."""
    place = _place(cls)
    if "<locals>" in place:
        return
    for claim in claims:
        other = _owners.setdefault(claim, place)
        if other != place:
            refuse(claim, other, place)


def check(owners: Iterable[tuple[type, Iterable[str]]]) -> None:
    """Refuse claims that two of these classes make, wherever the classes come from."""
    known: dict[str, type] = {}
    for cls, claims in owners:
        for claim in claims:
            other = known.setdefault(claim, cls)
            if other is not cls:
                refuse(claim, _place(other), _place(cls))


def refuse(claim: str, one: str, other: str) -> None:
    """Say that two places claim one name."""
    raise DefinitionError(
        f"two classes have the {claim}: {one} and {other}",
        remedy='Give one of them another name="…" or table="…"',
    )


def _place(cls: type) -> str:
    """A class run as `__main__` and imported by name is one class: told by its file."""
    module = sys.modules.get(cls.__module__)
    return f"{getattr(module, '__file__', None) or cls.__module__}:{cls.__qualname__}"

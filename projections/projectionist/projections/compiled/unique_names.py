"""Names that must be one consumer's alone: of consumers, and of tables, which share our schema.

A process is not an app: tests and tools load several. So a module is checked when its classes are defined,
and an App checks its classes.
"""

from __future__ import annotations

from collections.abc import Iterable

from projectionist.core.errors import DefinitionError

_owners: dict[tuple[str, str], str] = {}


def enter(cls: type, claims: Iterable[str]) -> None:
    """Take `claims` for a class of its module; the same class defined again is a reload."""
    if "<locals>" in cls.__qualname__:
        return
    for claim in claims:
        owner = _owners.setdefault((cls.__module__, claim), cls.__qualname__)
        if owner != cls.__qualname__:
            _refuse(claim, f"{cls.__module__}.{owner}", _place(cls))


def check(owners: Iterable[tuple[type, Iterable[str]]]) -> None:
    """Refuse claims that two of these classes make, wherever the classes come from."""
    known: dict[str, type] = {}
    for cls, claims in owners:
        for claim in claims:
            other = known.setdefault(claim, cls)
            if other is not cls:
                _refuse(claim, _place(other), _place(cls))


def _refuse(claim: str, one: str, other: str) -> None:
    raise DefinitionError(
        f"two classes have the {claim}: {one} and {other}",
        remedy='Give one of them another name="…" or table="…"',
    )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"

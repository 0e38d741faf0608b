"""One thing that was looked at, and what to do where it is not well."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """The weight of a finding."""

    WELL = "well"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    ATTENTION = "attention"


class Check(msgspec.Struct, frozen=True):
    """A finding."""

    about: str
    name: str
    level: Level
    found: str
    mend: str = ""
    """The command or setting that mends it."""


def well(about: str, name: str, found: str) -> Check:
    """Return that all is as it should be."""
    return Check(about, name, Level.WELL, found)


def note(about: str, name: str, found: str, mend: str = "") -> Check:
    """Return a remark on what may be meant."""
    return Check(about, name, Level.NOTE, found, mend)


def attention(about: str, name: str, found: str, mend: str) -> Check:
    """Return what an operator has to act on."""
    return Check(about, name, Level.ATTENTION, found, mend)

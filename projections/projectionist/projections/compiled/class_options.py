"""The keywords of a consumer's or view's class, and which values of them can work."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from projectionist.core.errors import DefinitionError
from projectionist.core.identifiers import checked
from projectionist.core.nats.subject_tokens import is_stream_name
from projectionist.projections.compiled.subject_pattern import Subjects

Sequencing = Literal["contiguous", "monotonic", "unordered"]
Baseline = int | Literal["first", "any"]
Effects = Literal["now", "beginning"]
Decrypt = Callable[[str, bytes], bytes]


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """The class keywords that every kind of view takes."""

    name: str | None = None
    formerly: tuple[str, ...] = ()
    revision: int = 1


@dataclass(frozen=True, kw_only=True)
class ClassOptions(ViewOptions):
    """The class keywords that every kind of consumer takes."""

    stream: str
    subjects: str | tuple[str, ...]
    sequence: Sequencing = "contiguous"
    baseline: Baseline = "first"
    effects: Effects = "now"
    decrypt: Decrypt | None = None


def subjects_of(policy: ClassOptions) -> Subjects:
    """Return the subjects that a class names, one or several."""
    return Subjects((policy.subjects,) if isinstance(policy.subjects, str) else policy.subjects)


def checked_name(cls: type, policy: ViewOptions) -> str:
    """Return the name of a class's consumer or view. Raises DefinitionError for one that cannot be one."""
    if isinstance(policy.formerly, str):
        raise DefinitionError(f"{cls.__name__}: formerly is a text", remedy='Write formerly=("OldName",)')
    name = cls.__name__ if policy.name is None else policy.name
    for text in (name, *policy.formerly):
        _check_name(cls, text)
    return name


def check_revision(cls: type, revision: object) -> None:
    """Refuse what is no revision."""
    if not _counts(revision):
        raise DefinitionError(f"{cls.__name__}: revision={revision!r}", remedy="Revisions count from 1")


def _check_name(cls: type, name: str) -> None:
    checked(name, what=f"consumer name of {cls.__name__}")
    if re.search(r"[:/.*>\\\s]", name):
        raise DefinitionError(
            f"{name!r} cannot be a consumer's name",
            remedy="Use letters, digits, - and _: it becomes a durable's name and part of keys",
        )


def check_policy(cls: type, policy: ClassOptions) -> None:
    """Refuse what is no stream, order or beginning."""
    if not is_stream_name(policy.stream):
        raise DefinitionError(
            f"{cls.__name__}: stream={policy.stream!r} is no stream's name", remedy='Write stream="SHOP"'
        )
    allowed: dict[str, tuple[Any, Any]] = {
        "sequence": (policy.sequence, get_args(Sequencing)),
        "effects": (policy.effects, get_args(Effects)),
    }
    if not (_counts(policy.baseline) or policy.baseline in ("first", "any")):
        raise DefinitionError(
            f"{cls.__name__}: baseline={policy.baseline!r}", remedy='Write "first", "any" or a version from 1'
        )
    if policy.baseline != "first" and policy.sequence == "unordered":
        raise DefinitionError(
            f"{cls.__name__}: baseline={policy.baseline!r} with sequence='unordered'",
            remedy="Without order nothing begins at a version: leave baseline out",
        )
    for keyword, (value, choices) in allowed.items():
        if value not in choices:
            raise DefinitionError(f"{cls.__name__}: {keyword}={value!r}", remedy=f"Write one of {choices}")


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1

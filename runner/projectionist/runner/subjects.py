"""Which filter a durable gets for the subjects a consumer names: at most one, since two cost most of the speed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def one_filter(patterns: Sequence[str], stream_subjects: Sequence[str]) -> str | None:
    """The narrowest single filter that lets all of `patterns` through; None if that is the whole stream."""
    widest = patterns[0].split(".")
    for pattern in patterns[1:]:
        widest = _join(widest, pattern.split("."))
    filter_subject = ".".join(widest)
    if stream_subjects and all(covers(filter_subject, subject) for subject in stream_subjects):
        return None
    return None if filter_subject == ">" else filter_subject


def covers(wide: str, narrow: str) -> bool:
    """True if every subject that matches `narrow` matches `wide`."""
    ours, theirs = wide.split("."), narrow.split(".")
    for token, other in zip(ours, theirs, strict=False):
        if token == ">":
            return True
        if other == ">" or token not in ("*", other):
            return False
    return len(ours) == len(theirs)


def overlap(one: str, other: str) -> bool:
    """True if some subject matches both."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(left) == len(right)


def matcher(patterns: Sequence[str]) -> Callable[[str], object]:
    """A predicate for subjects that match one of `patterns`."""
    return re.compile("|".join(_regex(pattern) for pattern in patterns)).fullmatch


def _join(one: list[str], other: list[str]) -> list[str]:
    joined: list[str] = []
    for a, b in zip(one, other, strict=False):
        if ">" in (a, b):
            return [*joined, ">"]
        joined.append(a if a == b else "*")
    if len(one) == len(other):
        return joined
    return [*joined, ">"]


def _regex(pattern: str) -> str:
    rules = {"*": r"[^.]+", ">": r".+"}
    return r"\.".join(rules.get(token, re.escape(token)) for token in pattern.split("."))

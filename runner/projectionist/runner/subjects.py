"""How subjects with wildcards relate. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def only(filter_subject: str, stream_subjects: Iterable[str]) -> str | None:
    """The filter a durable needs: none where it lets the whole stream through, since even that one costs."""
    subjects = list(stream_subjects)
    if filter_subject == ">" or (subjects and all(covers(filter_subject, subject) for subject in subjects)):
        return None
    return filter_subject


def covers(wide: str, narrow: str) -> bool:
    """True if every subject that matches `narrow` matches `wide`."""
    ours, theirs = wide.split("."), narrow.split(".")
    for word, other in zip(ours, theirs, strict=False):
        if word == ">":
            return True
        if other == ">" or word not in ("*", other):
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

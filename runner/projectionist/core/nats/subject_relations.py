"""How subjects with wildcards relate. Pure."""

from __future__ import annotations

import re

ALL = ">"
"""The pattern that every subject matches."""
_FUNCTION = re.compile(
    r"\$(?P<number>[0-9]+)|\{\{\s*(?:wildcard\(\s*(?P<wildcard>[0-9]+)\s*\)|[^{}]*)\s*\}\}", re.IGNORECASE
)
_SEVERAL = re.compile(r"split|slice", re.IGNORECASE)


def covers(wide: str, narrow: str) -> bool:
    """Return whether every subject that matches `narrow` matches `wide`."""
    ours, theirs = wide.split("."), narrow.split(".")
    for word, other in zip(ours, theirs, strict=False):
        if word == ">":
            return True
        if other == ">" or word not in ("*", other):
            return False
    return len(ours) == len(theirs)


def overlap(one: str, other: str) -> bool:
    """Return whether some subject matches both."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(left) == len(right)


def mapped(subject: str, src: str, dest: str) -> str:
    """Return what a transform from `src` to `dest` makes of a subject that matches `src`, wildcards kept.

    A token that cannot be told (a partition, a part of a token) becomes `*`; from one that may become several on, it
    is `>`. `subject` may be a pattern that `src` covers.
    """
    tokens, places = subject.split("."), src.split(".")
    wild = [tokens[at] for at, place in enumerate(places) if place == "*" and at < len(tokens)]
    made: list[str] = []
    for word in dest.split("."):
        function = _FUNCTION.fullmatch(word)
        if word == ALL:
            return ".".join([*made, *(tokens[len(places) - 1 :] or [ALL])])
        if function is None:
            made.append("*" if "{" in word or "}" in word else word)
        elif _SEVERAL.search(word):
            return ".".join([*made, ALL])
        else:
            number = function["number"] or function["wildcard"]
            known = number is not None and 0 < int(number) <= len(wild)
            made.append(wild[int(number) - 1] if known else "*")
    return ".".join(made)

"""Which statements of own SQL may change places with those of another table: those that are plain. Pure."""

from __future__ import annotations

import re

_STRING = re.compile(r"'(?:[^']|'')*'")
_STRANGE = re.compile(r"[\"\\;]|\$(?!\d)|--|/\*|'")
"""What makes a text hard to read, and is rare in a plain one: quoted names, escapes, dollar quotes, comments."""
_TARGET = re.compile(
    r"\s*(?:insert\s+into|update|delete\s+from)\s+\{([A-Za-z_]\w*)\}(?![\w.])", re.IGNORECASE
)
_PLACEHOLDER = re.compile(r"\{([^}]*)\}")
_BEYOND = re.compile(r"\b(?:select|from|using|with|returning|table|current)\b", re.IGNORECASE)
_BEFORE_PARENTHESIS = re.compile(r"(\w*)\s*\(")
_NO_CALL = {
    *(
        "all",
        "and",
        "any",
        "as",
        "between",
        "by",
        "case",
        "coalesce",
        "conflict",
        "else",
        "greatest",
        "ilike",
        "in",
    ),
    *(
        "is",
        "least",
        "like",
        "not",
        "nothing",
        "nullif",
        "on",
        "or",
        "set",
        "then",
        "values",
        "when",
        "where",
    ),
}
"""Words that may stand before a parenthesis and call no function of anybody's."""


def plain_target(sql: str) -> str | None:
    """Return the one table that a statement reads or writes, as its placeholder names it; None where that is doubtful.

    It is an `insert … values`, an `update` or a `delete`, and calls nothing that could look anywhere else.
    """
    text = _STRING.sub("", sql)
    found = _TARGET.match(text)
    if found is None or "\\" in sql or _STRANGE.search(text):
        return None
    rest, target = text[found.end() :], found[1]
    if _BEYOND.search(rest) or any(name != target for name in _PLACEHOLDER.findall(rest)):
        return None
    # A list of columns may follow the table's name; everywhere else a word before a parenthesis is a call.
    calls = (one for one in _BEFORE_PARENTHESIS.findall(rest) if one.lower() not in _NO_CALL)
    return None if any(calls) else target

"""Text with an intent's fields in it: `{field}`, nothing else: no attribute, no index, no format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from projectionist.outbox.providers.base import RenderError

_MARK = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def names(template: str) -> list[str]:
    """Return the fields a template uses. Raises ValueError for a brace that belongs to none (`{{` is plain)."""
    found = []
    for match in _MARK.finditer(template):
        if match[0] in ("{{", "}}"):
            continue
        if not match[1] or not match[1].isidentifier():
            raise ValueError(f"{match[0]!r} is not a field; a plain brace is written twice")
        found.append(match[1])
    return found


def as_pattern(template: str) -> str:
    """Return the pattern of the subjects that a template makes: a token that holds a field may be any."""
    return ".".join("*" if names(token) else fill(token, {}) for token in template.split("."))


def fill(template: str, fields: Mapping[str, Any], escape: Callable[[str], str] = str) -> str:
    """Fill in each field's value, escaped. Raises RenderError for a field that is not there or not
    plain."""

    def put(match: re.Match[str]) -> str:
        return match[0][0] if match[0] in ("{{", "}}") else escape(_plain(match[1], fields))

    return _MARK.sub(put, template)


def _plain(name: str, fields: Mapping[str, Any]) -> str:
    if name not in fields:
        raise RenderError(f"the intent has no field {name!r}", remedy=f"It has: {', '.join(sorted(fields))}")
    value = fields[name]
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise RenderError(f"the field {name!r} is not a plain value")
    return str(value)

"""Which headers may leave: their names, their values, and the trace context of an attempt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core.headers import TRACEPARENT, TRACESTATE, is_traceparent

if TYPE_CHECKING:
    from projectionist.outbox.providers.provider import Request

Headers = list[tuple[str, str]]

MOST_TRACE = 512
"""Bytes of a trace parent, and of a trace state: what W3C asks everybody to carry."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def is_name(text: str) -> bool:
    """Whether a header can be called so."""
    return _NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a header can say so: printable ASCII, no space at either end."""
    return _VALUE.fullmatch(text) is not None


def fault(headers: Iterable[tuple[str, str]]) -> str:
    """What keeps these from leaving, with the name of the first that cannot; "" if nothing does."""
    for name, value in headers:
        if not is_name(name):
            return f"{name[:64]!a} cannot be the name of a header"
        if value and not is_value(value):
            return f"the value of the header {name} holds characters that no header may"
    return ""


def trace_context(request: Request) -> Headers:
    """The trace that an attempt belongs to. What could not be a header is left out: it is no reason not to send."""
    parent, state = request.traceparent or "", request.tracestate or ""
    if not (_travels(parent) and is_traceparent(parent)):
        return []
    return [(TRACEPARENT, parent), (TRACESTATE, state)] if _travels(state) else [(TRACEPARENT, parent)]


def _travels(text: str) -> bool:
    return len(text) <= MOST_TRACE and is_value(text)

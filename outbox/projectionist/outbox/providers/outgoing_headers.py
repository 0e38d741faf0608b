"""Headers of outward calls: checks of names and values, and the trace context of an attempt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core import cloudevents

if TYPE_CHECKING:
    from projectionist.outbox.providers.base import Request

Headers = list[tuple[str, str]]

BAGGAGE = "baggage"

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def is_name(text: str) -> bool:
    """Return True for the name of a header."""
    return _NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Return True for the value of a header: printable ASCII, no space at either end."""
    return _VALUE.fullmatch(text) is not None


def fault(given: Iterable[tuple[str, str]]) -> str:
    """Return the first fault of these headers, with the name of the one at fault; "" for none."""
    for name, value in given:
        if not is_name(name):
            return f"{name[:64]!a} cannot be the name of a header"
        if value and not is_value(value):
            return f"the value of the header {name} holds characters that no header may"
    return ""


def context_headers(request: Request) -> Headers:
    """Return the trace that an attempt belongs to, and what is allowed of the event's baggage."""
    carried = request.baggage
    kept = [(BAGGAGE, carried)] if carried is not None and is_value(carried) else []
    return [*trace_context(request), *kept]


def trace_context(request: Request) -> Headers:
    """Return an attempt's trace context as headers. A malformed one is left out: it is no reason not to send."""
    parent, state = cloudevents.trace_context(request.traceparent, request.tracestate)
    found = [(cloudevents.TRACEPARENT, parent), (cloudevents.TRACESTATE, state)]
    return [(name, value) for name, value in found if value is not None]

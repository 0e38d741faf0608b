"""Logging for our processes: one line a change of state; never a payload, a secret or a parameter.

A line may bear facts (`extra=facts(…)`): consumer, event id, trace. People read them behind the line, programs as
fields of a JSON object.
"""

from __future__ import annotations

import logging
import sys
import traceback
from copy import copy
from textwrap import indent
from typing import Any, Literal

import msgspec

from projectionist.core import clock
from projectionist.core.digest import stand_in
from projectionist.core.errors import ProjectionistError
from projectionist.core.printable_text import visible, visible_json

log = logging.getLogger("projectionist")

FACTS = (
    "consumer",
    "provider",
    "source",
    "message_id",
    "message_ids",
    "trace_id",
    "intent_key",
    "count",
    "kind",
)
"""What a line may be about, beside its text."""

REPEAT_S = 10.0
"""How long a line of the same kind stays away after it was written; then one says how often it was meant."""
MOST_KINDS = 1_000
"""So many kinds of lines are remembered; further ones are written each time."""
AWAY_S = 300.0
"""How long a library stays away that has said something."""


def facts(*, traceparent: str | None = None, **given: Any) -> dict[str, Any]:
    """Return what a line is about, for `extra`: names of `FACTS`; the trace is that of a checked `traceparent`."""
    found = {name: value for name, value in given.items() if value is not None}
    if traceparent is not None:
        found["trace_id"] = traceparent[3:35]
    return {"facts": found}


class TextFormatter(logging.Formatter):
    """One line for people; the facts stand behind it."""

    def __init__(self, worker: int | None = None) -> None:
        who = "" if worker is None else f"worker {worker}: "
        super().__init__(f"%(asctime)s %(levelname)-7s {who}%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, whatever another formatter has kept with the record of a traceback."""
        mine = copy(record)
        mine.exc_text = None
        return super().format(mine)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's name
        """Return the line without a traceback: one line, whatever is quoted in it."""
        found = {k: v for k, v in _facts(record).items() if k in ("message_id", "trace_id", "intent_key")}
        line = super().formatMessage(record) + "".join(f" {name}={value}" for name, value in found.items())
        return visible(line)

    def formatException(self, ei: Any) -> str:  # noqa: N802  the library's name
        """Return the frames and classes of errors, indented; their texts, which may quote an event, at DEBUG alone."""
        shown = super().formatException(ei) if log.isEnabledFor(logging.DEBUG) else _without_texts(ei[1])
        return indent(visible(shown, "\n"), "  ", lambda _: True)


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for programs."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._who = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        shown: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            **self._who,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            # The kind and the place, never the text, which may quote an event.
            shown["error"] = record.exc_info[0].__name__
        return visible_json(msgspec.json.encode(shown).decode())


class RateLimitFilter(logging.Filter):
    """Lets a line of one kind (of one consumer) through once in a while, and counts the others.

    `every`: a line that names no kind is held back as well, by its logger.
    """

    def __init__(self, every_s: float = REPEAT_S, *, every: bool = False) -> None:
        super().__init__()
        self._every_s, self._every = every_s, every
        self._kept: dict[tuple[str, str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether it is written."""
        found = _facts(record)
        if "kind" not in found and not self._every:
            return True
        key, now = (record.name, str(found.get("kind")), str(found.get("consumer"))), clock.now()
        at, held = self._kept.get(key, (-self._every_s, 0))
        if now - at < self._every_s:
            self._kept[key] = at, held + 1
            return False
        if held:
            record.msg = f"{record.getMessage()} (and {held} more such lines since)"
            record.args = ()
        if len(self._kept) >= MOST_KINDS:
            self._kept = {known: seen for known, seen in self._kept.items() if now - seen[0] < self._every_s}
        if len(self._kept) < MOST_KINDS:
            self._kept[key] = now, 0
        return True


def configure(
    level: int = logging.INFO, form: Literal["human", "json"] = "human", *, worker: int | None = None
) -> None:
    """Write what `projectionist.*` logs to standard error, unless the program has set up logging itself.

    `worker`: the number that each line bears where several processes write one log.
    """
    if logging.getLogger("projectionist").handlers or logging.getLogger().handlers:
        return
    # An exporter whose collector is away says so at every try.
    for name, repeats in (
        ("projectionist", RateLimitFilter()),
        ("opentelemetry", RateLimitFilter(AWAY_S, every=True)),
    ):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter(worker) if form == "json" else TextFormatter(worker))
        handler.addFilter(repeats)
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(level)


def _without_texts(error: BaseException | None) -> str:
    parts: list[str] = []
    while error is not None:
        text = str(error) if isinstance(error, ProjectionistError) else stand_in(str(error))
        frames = "".join(traceback.format_tb(error.__traceback__))
        parts.append(f"{frames}{type(error).__name__}: {text}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(reversed(parts))


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = getattr(record, "facts", {})
    return found

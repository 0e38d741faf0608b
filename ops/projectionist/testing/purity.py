"""Watches handlers while they run: what they ask beside row and event, and whether they change the event."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from datetime import date
from inspect import isgenerator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from projectionist.outbox.intents.keys import frozen_body

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.folding.step import Step

_TELLING = {"logging", "hypothesis"}
"""Log records bear their time, and Hypothesis takes that of the garbage collector, whenever it runs."""
_TIMES = {"now", "utcnow", "today"}
_ASKED = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "posix": {"urandom", "getpid"},
    "_io": {"open"},
    "_uuid": {"generate_time_safe"},
}


class HandlerWatch:
    """What was seen of the functions of one consumer's classes."""

    def __init__(self, views: Iterable[Definition]) -> None:
        handlers = {one for view in views for one in view.handlers.values()}
        given = [(h.call, h.key, h.each, h.when, *(one.by for one in h.lookups.values())) for h in handlers]
        functions = {one for several in given for one in several if callable(one)}
        codes = [(getattr(one, "__code__", None), one) for one in functions]
        self._codes: dict[CodeType, str] = {code: one.__qualname__ for code, one in codes if code is not None}
        self.seen: dict[str, None] = {}
        """Findings, in their order, each once."""

    def step(self, step: Step) -> Step:
        """Put a handler into the step that is told on if it changes its event, where an event can be changed."""
        if step.handler.copies:
            step.handler = copy(step.handler)
            step.handler.call = self._compared(step.handler.call)
        return step

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Note what is asked for inside of the block; in this thread."""
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _compared(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def compared(row: Any, event: Any, *envelope: Any, **looked_up: Any) -> Any:
            before = frozen_body(event)
            answer = call(row, event, *envelope, **looked_up)
            if isgenerator(answer):
                answer = list(answer)
            if frozen_body(event) != before:
                self.seen[f"{self._codes[call.__code__]} changes its {type(event).__name__}"] = None
            return answer

        return compared

    def _profile(self, frame: FrameType, what: str, asked: Any) -> None:
        if what == "c_call" and (name := _impure(asked)) is not None and (inside := self._inside(frame)):
            self.seen[f"{inside} asks for {name}"] = None

    def _inside(self, frame: FrameType | None) -> str | None:
        """Return the function of the class that runs; None where something else tells the time below it."""
        while frame is not None:
            if str(frame.f_globals.get("__name__")).partition(".")[0] in _TELLING:
                return None
            if frame.f_code in self._codes:
                return self._codes[frame.f_code]
            frame = frame.f_back
        return None


def _impure(asked: Any) -> str | None:
    """Return the name of a function whose answer is another one each time; None for others."""
    name, of = getattr(asked, "__name__", ""), getattr(asked, "__self__", None)
    if isinstance(of, random.Random):
        return f"random.{name}"
    if isinstance(of, type) and issubclass(of, date):
        return f"{of.__name__}.{name}" if name in _TIMES else None
    module = str(getattr(of, "__name__", None) or getattr(asked, "__module__", None))
    return f"{module.lstrip('_').replace('posix', 'os')}.{name}" if name in _ASKED.get(module, ()) else None

"""Task groups wrap what they raise; whoever has one task's error to answer wants the error itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unwrap_single_exception() -> Iterator[None]:
    """Raise the one error inside exception groups; several different ones stay a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None

"""Named moments that production code announces and tests await: free and silent unless somebody listens.

A crash test arms a listener that kills the process at the n-th announcement of a name; an integration test
waits for a name instead of sleeping. No production code may ever arm one.
"""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[str], None]

_listeners: list[Listener] = []


def announce(name: str) -> None:
    """Say that the moment `name` has been reached."""
    if _listeners:
        for listener in tuple(_listeners):
            listener(name)


def listen(listener: Listener) -> Callable[[], None]:
    """Hear every announcement of this process from now on; returns the function that ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)

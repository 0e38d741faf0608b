"""Every phase of a test has its time: setup, call and teardown. What does not end is interrupted.

An interruption may be lost: an event loop keeps it in whichever task was running, a library swallows it. So it is
repeated, and in the end the process says what all its threads were doing and is gone: nothing can hang the suite.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

import pytest

AGAIN_S = 5.0
"""After how long an interruption is repeated."""
LAST = 3.0
"""After so many times its time, whatever has been tried, the process ends."""

_arm: list[Callable[[], None]] = []
"""Winds the clock of the phase that runs."""

_errors = pytest.StashKey[TextIO]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting `deadline_s`."""
    parser.addini("deadline_s", "seconds for each of setup, call and teardown of a test", default="300")


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and the real standard error: pytest captures the one that all write to."""
    config.addinivalue_line(
        "markers", "deadline(seconds): for each phase of this test, instead of `deadline_s`"
    )
    config.stash[_errors] = os.fdopen(os.dup(2), "w")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what `pytest_configure` has opened."""
    config.stash[_errors].close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Limit the setup."""
    with _limited(item, "setup"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Limit the test itself."""
    with _limited(item, "call"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Limit the teardown."""
    with _limited(item, "teardown"):
        return (yield)


def begin_anew() -> None:
    """Count the time of this phase from now on: a test of many examples has it for each of them."""
    for arm in _arm:
        arm()


@contextmanager
def _limited(item: pytest.Item, phase: str) -> Iterator[None]:
    seconds, errors = _seconds(item), item.config.stash[_errors]

    def interrupt(_: int, __: FrameType | None) -> None:
        print(f"\n{item.nodeid}: the {phase} has run for {seconds:g} s", file=errors)
        _tell(errors)
        pytest.fail(f"the {phase} did not end within {seconds:g} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, interrupt)

    def arm() -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
        faulthandler.dump_traceback_later(LAST * seconds, exit=True, file=errors)

    arm()
    _arm.append(arm)
    try:
        yield
    finally:
        _arm.remove(arm)
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("deadline")
    return float(marker.args[0] if marker else item.config.getini("deadline_s"))


def _tell(errors: TextIO) -> None:
    """Print what every thread does, and what every task waits for."""
    faulthandler.dump_traceback(errors)
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop is running
        return
    for task in tasks:
        task.print_stack(limit=6, file=errors)
    errors.flush()

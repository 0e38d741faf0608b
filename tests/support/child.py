"""The real command line in a process that tells the test what it announces, and can be ended at any of it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter

import msgspec
from tests.support.io_steps import Steps, count_steps

from projectionist.core import testpoints


class Orders(msgspec.Struct, frozen=True):
    """What the test wants, passed in the environment: two file descriptors, and what to do to itself when."""

    VARIABLE = "LAB_ORDERS"

    announcements: int
    lifeline: int
    kill_at: dict[str, int] = {}
    pause_at: dict[str, int] = {}
    steps: Steps | None = None


def obey(orders: Orders) -> None:
    """Arm the listener. It writes before it acts, so that the test knows what the process died of."""
    # As at a terminal: a shell that runs the tests in the background has all that they start ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    counts: Counter[str] = Counter()

    def hear(name: str) -> None:
        counts[name] += 1
        _tell(orders, name)
        if counts[name] == orders.kill_at.get(name):
            os.kill(os.getpid(), signal.SIGKILL)
        if counts[name] == orders.pause_at.get(name):
            os.kill(os.getpid(), signal.SIGSTOP)

    testpoints.listen(hear)
    if orders.steps is not None:
        count_steps(orders.steps, lambda name: _tell(orders, name))
    threading.Thread(target=_die_with_the_test, args=(orders.lifeline,), daemon=True).start()


def _tell(orders: Orders, name: str) -> None:
    os.write(orders.announcements, f"{name}\n".encode())


def _die_with_the_test(lifeline: int) -> None:
    os.read(lifeline, 1)  # returns when the other end closes, however the test session ended
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    obey(msgspec.json.decode(os.environ.pop(Orders.VARIABLE), type=Orders))
    from projectionist.ops.main import main

    sys.exit(main())

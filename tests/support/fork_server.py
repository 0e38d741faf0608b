"""Starts the command line in processes of their own that have what others wrote imported already.

Tests start it some hundreds of times, and half of what most of those processes do is to import asyncpg, nats-py and
the like. One process of a session imports them, and forks for each call. What forks imports Projectionist itself, so
that nothing of one process, such as its identity, is in two. Run as `python -m tests.support.fork_server DESCRIPTOR`.
"""

from __future__ import annotations

import gc
import os
import selectors
import socket
import sys
from importlib import import_module

import msgspec

LARGEST = 1 << 20
"""Bytes of a request: a whole environment."""
_OURS = ("projectionist", "tests")
_IMPORT_IT = (
    "projectionist.ops.main",
    "projectionist.ops.commands.migrate",
    "projectionist.outbox.relay.relay",
    "projectionist.runner.process.run",
)


class Request(msgspec.Struct, frozen=True):
    """One call. With it come the descriptors of its answers, output, errors, announcements and lifeline."""

    arguments: list[str]
    cwd: str
    environment: dict[str, str]


class Began(msgspec.Struct, frozen=True, tag=True):
    """The first answer: it runs."""

    pid: int


class Over(msgspec.Struct, frozen=True, tag=True):
    """The last answer: its exit code, negative for the signal that ended it."""

    code: int


def main(control: socket.socket) -> int:
    """Fork for each request until the tests are over; in what was forked, run the command."""
    _import_what_others_wrote()
    with control:
        child = _serve(control)
    if child is None:
        return 0
    announcements, lifeline = child
    from tests.support.child import Orders, obey  # noqa: PLC0415 - ours, for this process alone

    orders = msgspec.json.decode(os.environ.pop(Orders.VARIABLE), type=Orders)
    obey(msgspec.structs.replace(orders, announcements=announcements, lifeline=lifeline))
    from projectionist.ops.main import main as command_line  # noqa: PLC0415 - ours, and later than `obey`

    return command_line()


def _import_what_others_wrote() -> None:
    for name in _IMPORT_IT:
        import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    gc.freeze()


def _serve(control: socket.socket) -> tuple[int, int] | None:
    """Return, in a child, the descriptors for its announcements and of its lifeline."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    selector.unregister(key.fileobj)
                    _tell_the_end(key.fd, *key.data)
                    continue
                data, descriptors, *_ = socket.recv_fds(control, LARGEST, 5)
                if not data:
                    return None
                answers, *theirs = descriptors
                if not (pid := os.fork()):
                    return _become(msgspec.json.decode(data, type=Request), theirs, selector)
                for one in theirs:
                    os.close(one)
                os.write(answers, msgspec.json.encode(Began(pid)))
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, answers))


def _tell_the_end(descriptor: int, pid: int, answers: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(descriptor)
    os.write(answers, msgspec.json.encode(Over(code)))
    os.close(answers)


def _become(request: Request, theirs: list[int], selector: selectors.BaseSelector) -> tuple[int, int]:
    """Make of this process what would have been started for the request."""
    for key in list(selector.get_map().values()):
        if key.data:
            os.close(key.fd)
            os.close(key.data[1])
    out, err, announcements, lifeline = theirs
    for wanted, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(descriptor, wanted)
        os.close(descriptor)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[0] = request.cwd
    sys.argv[1:] = request.arguments
    return announcements, lifeline


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))

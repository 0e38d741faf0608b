"""Both servers of one home: up, down, status, reset. The same for `projectionist dev`, tests and demo."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from projectionist.core import project_servers
from projectionist.ops.embedded import home as homes
from projectionist.ops.embedded import places, processes
from projectionist.ops.embedded.errors import EmbeddedError, StartError
from projectionist.ops.embedded.nats import NatsServer
from projectionist.ops.embedded.postgres import PostgresServer


class Addresses(msgspec.Struct, frozen=True):
    """The addresses of the servers, and what the user should be told about how they came up."""

    postgres_url: str
    nats_url: str
    notes: list[str]


class ServerStatus(msgspec.Struct, frozen=True):
    """One server. While it does not run its URL is empty and its pid 0."""

    name: str
    url: str
    pid: int
    data: str
    log: str


class Embedded:
    """A PostgreSQL and a nats-server under the folder `home`.

    `durable=False` leaves out PostgreSQL's fsync: data survives a killed server but not a killed machine.
    `sync_always` makes NATS sync each message; otherwise it does so every two minutes, its own default.
    As a context manager the servers are up inside and down outside; without, they outlive the caller.
    """

    def __init__(
        self, home: Path, *, durable: bool = True, sync_always: bool = False, state: Path = places.STATE
    ) -> None:
        self.home = home.resolve()
        self.postgres = PostgresServer(self.home, durable=durable, state=state)
        self.nats = NatsServer(self.home, sync_always=sync_always)
        self._outside = places.outside(self.home, state)

    def up(self) -> Addresses:
        """Start what does not run, and say where both listen. A second call finds the same servers."""
        with homes.ours(self.home):
            homes.make(self.home)
            with homes.locked(self.home):
                notes = self.postgres.prepare()
                postgres = self.postgres.url(self._up(self.postgres, notes))
                nats = self.nats.url(self._up(self.nats, notes))
                up = (self.postgres, postgres), (self.nats, nats)
                project_servers.note(
                    self.home, {one.name: project_servers.Server(url, one.pid(), one.mark) for one, url in up}
                )
        return Addresses(postgres, nats, self.postgres.notes() + notes)

    def down(self) -> None:
        """Stop what runs. Data stays."""
        if self.home.exists():
            homes.check(self.home)
            with homes.ours(self.home), homes.locked(self.home):
                self._stop()

    def status(self) -> list[ServerStatus]:
        """Return the state of both servers, found out by looking: nothing is started, made or waited for."""
        if not self.home.exists():
            return []
        homes.check(self.home)
        with homes.ours(self.home):
            ports = homes.read_ports(self.home)
            return [_look(server, ports.get(server.name, 0)) for server in (self.postgres, self.nats)]

    def reset(self) -> None:
        """Stop both and delete their data, wherever it lies."""
        if not self.home.exists():
            return
        homes.check(self.home)
        with homes.ours(self.home), homes.locked(self.home):
            self._stop()
            for folder in (self._outside, *(entry for entry in self.home.iterdir() if entry.is_dir())):
                if folder.exists():
                    shutil.rmtree(folder)
            for file in self.home.iterdir():
                if file.name not in {"lock", ".gitignore"}:
                    file.unlink()

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _up(self, server: PostgresServer | NatsServer, notes: list[str]) -> int:
        """Return the port `server` listens on, which is the one it had last while no other process has taken that."""
        last = homes.read_ports(self.home).get(server.name, 0)
        # Who was killed a moment ago may still be there when first looked for.
        processes.until(lambda: not server.pid() or server.ready(last), seconds=30)
        if server.pid():
            if server.ready(last):
                return last
            problem = f"{server.name} runs, but does not answer on port {last}"
            raise EmbeddedError(problem, remedy="Run `projectionist dev down`, then `projectionist dev up`")
        port = self._start(server, last)
        if last not in (0, port):
            notes.append(f"port {last} is taken by another program: {server.name} listens on {port} now")
        return port

    def _start(self, server: PostgresServer | NatsServer, port: int) -> int:
        """Start `server` on `port` or a free one; again, if that is lost before the server has it."""
        # A server that was killed a moment ago may still be letting go of its port, also one of another process.
        processes.await_ending()
        if port and not processes.until(lambda: processes.is_free(port), seconds=1):
            port = 0
        for first in (port, 0, 0, 0, 0):
            port = first or processes.free_port()
            homes.write_ports(self.home, homes.read_ports(self.home) | {server.name: port})
            try:
                server.start(port)
                return port
            except StartError as ended:
                if processes.is_free(port):
                    problem = f"{server.name} ended at its start. Its log ({server.log}): {ended}"
                    raise EmbeddedError(problem) from ended
        raise EmbeddedError(f"{server.name} lost every port it tried to another program", remedy="Try again")

    def _stop(self) -> None:
        for server in (self.nats, self.postgres):
            server.stop()


def _look(server: PostgresServer | NatsServer, port: int) -> ServerStatus:
    pid = server.pid()
    return ServerStatus(
        name=server.name,
        url=server.url(port) if pid else "",
        pid=pid,
        data=str(server.folder),
        log=str(server.log),
    )

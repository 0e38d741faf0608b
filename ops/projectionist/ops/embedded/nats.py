"""A nats-server with JetStream on the loopback interface."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import socket
from pathlib import Path

from projectionist.core import own_files
from projectionist.core.project_servers import runs
from projectionist.ops.embedded import binaries, processes

_CONFIGURATION = """\
# Written anew at each start.
listen: "{host}:{port}"
server_name: {name}
# A client on a busy machine has longer than the usual two seconds to log in.
authorization {{ token: {token}, timeout: 60 }}
pid_file: {pid_file}
jetstream {{
  store_dir: {store}
  {sync}
}}
"""


class NatsServer:
    """The server whose data lies in `home/nats`.

    It runs as the user that starts it: unlike PostgreSQL's superuser, a client of nats-server cannot run programs. It
    takes who has the token, which is in its URL and, for this user alone, in `home/nats.token`.
    """

    name = "nats"

    def __init__(self, home: Path, *, sync_always: bool) -> None:
        self.folder = home / "nats"
        self.log = home / "nats.log"
        self._configuration = home / "nats.conf"
        self._pid_file = home / "nats.pid"
        self._token = home / "nats.token"
        self._sync_always = sync_always
        self._server_name = f"projectionist-{hashlib.blake2b(os.fsencode(home), digest_size=6).hexdigest()}"

    def url(self, port: int) -> str:
        """Return the URL of the server, should it listen on `port`."""
        return f"nats://{own_files.read_own(self._token).decode()}@{processes.HOST}:{port}"

    @property
    def mark(self) -> str:
        """Return an argument of the server's process that no other one has."""
        return str(self._configuration)

    def pid(self) -> int:
        """Return the pid of the running server; 0 if it does not run."""
        try:
            pid = int(own_files.read_own(self._pid_file))
        except (OSError, ValueError):  # never started, stopped, or cut off while writing
            return 0
        return pid if runs(pid, self.mark) else 0

    def start(self, port: int) -> None:
        """Start on `port` and return when JetStream has its streams back; `StartError` if it ends instead."""
        if not self._token.exists():
            own_files.replace(self._token, secrets.token_hex(16).encode())
        text = _CONFIGURATION.format(
            host=processes.HOST,
            port=port,
            name=self._server_name,
            token=json.dumps(own_files.read_own(self._token).decode()),
            pid_file=json.dumps(str(self._pid_file)),
            store=json.dumps(str(self.folder)),
            sync="sync_interval: always" if self._sync_always else "",
        )
        own_files.replace(self._configuration, text.encode())
        program = binaries.nats_server()
        binaries.verify(program, binaries.NATS_WHEEL)
        processes.launch(
            [program, "-c", str(self._configuration)],
            log=self.log,
            ready=lambda _: self.ready(port),
            seconds=60,
            identity={},
            environment=os.environ,
        )

    def ready(self, port: int) -> bool:
        """Return whether the server on `port` is this one and its JetStream is up."""
        try:
            with socket.create_connection((processes.HOST, port), timeout=1) as connection:
                line = connection.makefile("rb").readline()
            info = json.loads(line.removeprefix(b"INFO "))
        except (OSError, ValueError):
            return False
        return info.get("server_name") == self._server_name and info.get("jetstream") is True

    def stop(self) -> None:
        """Stop it if it runs."""
        processes.end(self.pid(), str(self._configuration), (signal.SIGTERM, signal.SIGKILL), seconds=10)

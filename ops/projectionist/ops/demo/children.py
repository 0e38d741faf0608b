"""The processes of the demo: two runners, which share the work, and a relay. None may end before it is told to."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
import msgspec
from anyio.abc import Process

from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.sources import PREFIX
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.ops.cli.output import warn
from projectionist.ops.workers.worker_end import ending_in_words

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings

VERBS = {"the first runner": "run", "the second runner": "run", "the relay": "relay"}
SAID_BYTES = 4000
"""So many of the last bytes that a process has written are shown when it fails."""


class DemoError(ProjectionistError):
    """The demo cannot go on."""


class DemoProcess(msgspec.Struct, frozen=True):
    """One of them, and the file of what it says."""

    name: str
    process: Process
    said: IO[bytes]

    async def watch(self, ended: list[DemoProcess]) -> None:
        """Raise DemoError as soon as it has ended, once what it said is shown; unless another has ended before."""
        code = await self.process.wait()
        ended.append(self)
        if ended[0] is not self:
            return
        said = self.show()
        raise DemoError(
            f"{self.name} {ending_in_words(code)} while the demo needed it",
            remedy="What it said stands above" if said else "It said nothing",
        )

    async def end(self) -> int:
        """Ask it to end, and wait until it has; its exit code."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        with anyio.move_on_after(15):
            return await self.process.wait()
        self.process.kill()
        return await self.process.wait()

    def show(self) -> bool:
        """Show the end of what it has written; whether there was anything."""
        self.said.seek(0)
        text = self.said.read()[-SAID_BYTES:].decode(errors="replace").strip()
        if text:
            warn(text)
        return bool(text)


@asynccontextmanager
async def children(settings: Settings, app: str, mailbox: Path) -> AsyncIterator[list[DemoProcess]]:
    """Run the processes; DemoError ends the block as soon as one of them has ended by itself."""
    urls = {
        "PROJECTIONIST_POSTGRES__URL": settings.postgres.url.reveal() if settings.postgres.url else "",
        "PROJECTIONIST_NATS__URL": settings.nats.url[0].reveal(),
        "SHOP_MAILBOX": str(mailbox),
        # Whoever looks on would take the usual minute, in which an event may be late, for a fault.
        "PROJECTIONIST_CONSUMER_DEFAULTS__LATE_S": "10",
    }
    # In a folder of their own, and without our variables: the settings of the project around us are not the demo's.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    crew: list[DemoProcess] = []
    ended: list[DemoProcess] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as files:
        try:
            for name, verb in VERBS.items():
                said = files.enter_context(tempfile.TemporaryFile())
                crew.append(DemoProcess(name, await _started(verb, app, folder, said, kept | urls), said))
            with unwrap_single_exception():
                async with anyio.create_task_group() as tasks:
                    for child in crew:
                        tasks.start_soon(child.watch, ended)
                    yield crew
                    tasks.cancel_scope.cancel()
        except DemoError:
            await _end_all(crew)
            raise
        finally:
            for child in await _end_all(crew):
                child.show()


async def _started(
    verb: str, app: str, folder: str, said: IO[bytes], environment: Mapping[str, str]
) -> Process:
    command = [sys.executable, "-m", "projectionist.ops", verb, app]
    return await anyio.open_process(command, cwd=folder, stdout=said, stderr=said, env=environment)


async def _end_all(crew: Iterable[DemoProcess]) -> list[DemoProcess]:
    """End those that have not ended; the ones that did not end well."""
    left = [child for child in crew if child.process.returncode is None]
    with anyio.CancelScope(shield=True):
        codes = [await child.end() for child in left]
    return [child for child, code in zip(left, codes, strict=True) if code]

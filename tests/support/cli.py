"""An operator's terminal: the command line in a folder whose settings lead to a harness's servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Ended, run_projectionist


class Cli:
    """Runs `projectionist …` as a person would."""

    def __init__(self, live: ConsumerHarness, folder: Path, *, more: str = "", **env: str) -> None:
        text = f'[postgres]\nurl = "{live.database}"\n[nats]\nurl = ["{live.servers.nats_url}"]\n{more}'
        (folder / "projectionist.toml").write_text(text)
        self.folder = folder
        self._env = {"PROJECTIONIST_ACTOR": "ann"} | env

    async def run(self, *words: str) -> Ended:
        """Run a command to its end."""
        return await run_projectionist(*words, cwd=self.folder, **self._env)

    async def done(self, *words: str) -> str:
        """Run a command that has to work, and return what it says."""
        ended = await self.run(*words)
        assert ended.code in (0, 3), f"{words}: {ended.code}\n{ended.out}{ended.err}"
        return ended.out

    async def seen(self, *words: str) -> Any:
        """Run a command, and return what it shows to a program."""
        return msgspec.json.decode(await self.done(*words, "--json"))

    async def refused(self, *words: str) -> str:
        """Run a command that has to be refused, and return why."""
        ended = await self.run(*words)
        assert ended.code in (1, 2), f"{words}: {ended.code}\n{ended.out}{ended.err}"
        assert ended.err.startswith("error: "), ended.err
        return ended.err.removeprefix("error: ").rstrip()

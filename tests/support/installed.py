"""Our wheel in a virtual environment of its own, beside exactly what it says that it needs, and nothing else.

What it needs is not fetched but linked, file by file, from the environment of the tests: no package registry is
asked, and what is not declared cannot be found.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support.scrape import get
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
OPTIONS = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")


class Said(msgspec.Struct, frozen=True):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


class Installed:
    """An environment with our wheel and the dependencies of some of its extras."""

    def __init__(self, home: Path, wheel: Path, *extras: str) -> None:
        self._home = home
        venv.create(home, with_pip=False)
        self.python = home / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", str(self.python))
        subprocess.run([*pip, "install", *OPTIONS, str(wheel)], check=True)
        self._site = next(home.glob("lib/python*/site-packages"))
        ours = PathDistribution(next(self._site.glob("projectionist-*.dist-info")))
        for needed in _closure(ours, extras).values():
            self._link(needed)

    def _link(self, needed: Distribution) -> None:
        for file in needed.files or ():
            target = Path(os.path.normpath(self._site / file))  # a program stands in ../../../bin
            if target.exists() or not target.is_relative_to(self._home):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(needed.locate_file(file))).resolve())

    async def call(self, *words: str, cwd: Path, code: str = "0", **env: str) -> Said:
        """Run `projectionist WORDS`, or `python WORDS` if they begin with a dash, to its end with one of the codes."""
        process = await self._started(words, cwd, env)
        out, err = await process.communicate()
        said = Said(process.returncode or 0, out.decode(), err.decode())
        assert str(said.code) in code, f"{words} ended with {said.code}:\n{said.out}{said.err}"
        return said

    @asynccontextmanager
    async def serving(self, port: int, *words: str, cwd: Path, **env: str) -> AsyncIterator[None]:
        """A process that runs for long and answers at `port`, from when it is ready; it ends well when asked to."""
        listen = {"PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{port}"}
        process = await self._started(words, cwd, {**env, **listen})

        async def ready() -> bool:
            if process.returncode is None:
                assert (await get(port, "/ready")).status == 200
            return True

        try:
            await eventually(ready)
            assert process.returncode is None, (await process.communicate())[1].decode()
            yield
            process.send_signal(signal.SIGTERM)
            _, err = await process.communicate()
            assert process.returncode == 0, err.decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def _started(
        self, words: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        command = (
            [str(self.python)] if words[0].startswith("-") else [str(self.python.parent / "projectionist")]
        )
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "PROJECTIONIST", "OTEL"))
        }
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command,
            *words,
            cwd=cwd,
            env={**clean, **env},
            stdout=pipe,
            stderr=pipe,
            stdin=asyncio.subprocess.DEVNULL,
        )


def _closure(ours: Distribution, extras: Iterable[str]) -> dict[str, Distribution]:
    """Everything that has to be there for these extras, by its name."""
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    left = [(ours, extra) for extra in ("", *extras)]
    while left:
        one, extra = left.pop()
        for text in one.requires or ():
            need = Requirement(text)
            if need.marker is not None and not need.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(need.name)
            found[name] = distribution(need.name)
            for each in ("", *need.extras):
                if (name, each) not in done:
                    done.add((name, each))
                    left.append((found[name], each))
    return found


def built(folder: Path, *, editable: bool = False) -> Path:
    """A wheel by the build backend itself, so that no package registry is asked."""
    folder.mkdir(parents=True)
    hook = "build_editable" if editable else "build_wheel"
    code = f"import sys; from hatchling import build; sys.stdout.write(build.{hook}({str(folder)!r}))"
    name = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True)
    return folder / name.stdout.splitlines()[-1]

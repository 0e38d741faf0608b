"""The process harness: what it hears, and that it strikes exactly where it is told to."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.support.forked import can_fork, session_environment
from tests.support.process import projectionist, run_projectionist
from tests.support.servers import Servers
from tests.support.standstill import stands_still
from tests.support.waiting import HANG_S

from projectionist.core.project_servers import runs
from projectionist.ops.embedded.processes import until

pytestmark = pytest.mark.asyncio


@pytest.fixture
def urls(servers: Servers, database: str) -> dict[str, str]:
    return {"PROJECTIONIST_POSTGRES__URL": database, "PROJECTIONIST_NATS__URL": servers.nats_url}


async def test_a_command_runs_to_its_end(urls: dict[str, str], tmp_path: Path) -> None:
    ended = await run_projectionist("status", "--json", cwd=tmp_path, **urls)
    assert (ended.code, ended.err) == (0, "")
    assert '"well": true' in ended.out


async def test_a_process_is_killed_at_a_moment_and_the_moment_is_heard(
    urls: dict[str, str], tmp_path: Path
) -> None:
    async with projectionist("status", cwd=tmp_path, env=urls, kill_at={"broker.connected": 1}) as child:
        await child.heard("broker.connected")
        ended = await child.ended()
    assert (ended.code, ended.out) == (-signal.SIGKILL, "")


async def test_a_process_can_be_paused_at_a_moment(urls: dict[str, str], tmp_path: Path) -> None:
    async with projectionist("status", cwd=tmp_path, env=urls, pause_at={"broker.connected": 1}) as child:
        await child.heard("broker.connected")
        assert until(lambda: stands_still(child.pid), seconds=HANG_S)
        assert child.out == ""
        child.signal(signal.SIGCONT)
        assert (await child.ended()).code == 0


async def test_waiting_for_what_never_comes_ends_with_the_process(
    urls: dict[str, str], tmp_path: Path
) -> None:
    async with projectionist("status", "--nonsense", cwd=tmp_path, env=urls) as child:
        with pytest.raises(AssertionError, match=r"ended with 2 before 'never'[\s\S]*--nonsense"):
            await child.heard("never")


async def test_a_process_left_running_is_killed_at_the_end_of_the_block(
    urls: dict[str, str], tmp_path: Path
) -> None:
    async with projectionist("status", cwd=tmp_path, env=urls, pause_at={"broker.connected": 1}) as child:
        await child.heard("broker.connected")
    assert not runs(child.pid, "status")
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


async def test_what_is_read_when_a_process_is_loaded_needs_one_that_nothing_has_loaded() -> None:
    assert can_fork(session_environment() | {"PROJECTIONIST_NATS__URL": "x"}) == (sys.platform == "linux")
    assert not can_fork(session_environment() | {"PYTHONHASHSEED": "1"})

"""The demo shows the main job and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import console_pictures
from tests.support.process import ROOT, run_projectionist
from tests.support.waiting import HANG_S

from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings
from projectionist.ops.demo.children import DemoError, DemoProcess, children
from projectionist.ops.demo.play import APP

pytestmark = pytest.mark.asyncio

GUIDE = (ROOT / "docs" / "guide" / "console.md").read_text("utf-8")


@pytest.fixture
def empty() -> Iterator[Path]:
    """A folder for temporary files, which every account gets through and which must be empty afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="projectionist-demo-"))
    folder.chmod(0o711)
    yield folder
    folder.rmdir()  # refused where anything is left


async def test_the_demo_shows_the_main_job_and_leaves_nothing_behind(tmp_path: Path, empty: Path) -> None:
    ended = await run_projectionist(
        *("demo", "--orders", "300", "--json"),
        cwd=tmp_path,
        TMPDIR=str(empty),
        PROJECTIONIST_RUN__SHUTDOWN_S="of the project around it, which is none of the demo's",
    )
    assert ended.code == 0, ended.err
    assert "fsync on" in ended.err
    outcome = json.loads(ended.out)
    assert outcome["rows"]["order_summary"] == 300
    assert set(outcome["differing"].values()) == {0}
    assert outcome["outcomes"]["duplicate"] > 0, "the producer was not careless enough to show anything"
    assert outcome["outcomes"]["parked_gap"] > 0
    assert outcome["outcomes"]["intents"] == 300
    assert outcome["rebuilt"] > 0
    assert (outcome["mails"], outcome["doubled"]) == (300, 0)


def names_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


async def test_with_a_console_the_shop_stays_up_to_be_mended_and_pictures_are_taken(
    tmp_path: Path, empty: Path
) -> None:
    code = await console_pictures.take(tmp_path, orders=20, whole_minute=False, TMPDIR=str(empty))
    assert code == 0
    taken = names_in(tmp_path)
    assert taken == names_in(console_pictures.FOLDER), "`make pictures` takes them anew"
    assert {name for name in taken if name not in GUIDE} == set()


DYING = """
import sys
from projectionist.ops.demo import play
from projectionist.ops.main import main
play.APP = "nowhere.to.be:found"
sys.exit(main(["demo", "--orders", "50"]))
"""


async def test_a_process_that_dies_ends_the_demo_and_is_named(tmp_path: Path, empty: Path) -> None:
    """It waited for ever for what nobody did."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DYING),
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(empty)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(2 * HANG_S):
            said = (await process.communicate())[1].decode()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 1, said
    assert re.search(r"\nerror: the (first runner|second runner|relay) ended with exit code 1 while", said), (
        said
    )
    assert said.count("there is no module nowhere.to.be") == 1, "what it said itself is shown"
    assert "Traceback" not in said


async def test_of_several_killed_at_once_one_is_named_with_its_signal(tmp_path: Path) -> None:
    nowhere = Settings(
        postgres=Postgres(url=Url("postgresql://127.0.0.1:1/nowhere")),
        nats=Nats(url=(Url("nats://127.0.0.1:1"),)),
    )
    crew: list[DemoProcess] = []

    async def killed() -> None:
        async with children(nowhere, APP, tmp_path / "mails") as started:
            crew.extend(started)
            for child in reversed(crew):
                child.process.kill()
            await asyncio.Event().wait()

    with pytest.raises(DemoError, match=r"^the .* was killed by SIGKILL while the demo needed it"):
        await asyncio.wait_for(killed(), 2 * HANG_S)
    assert all(child.process.returncode is not None for child in crew)

"""`projectionist init`: what it writes into an empty folder runs at once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import ROOT, projectionist, run_projectionist

from projectionist.ops.commands import init

pytestmark = pytest.mark.asyncio


async def python(folder: Path, *words: str, **env: str) -> str:
    """What Python says in a folder, in a process that has to succeed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    return said


async def test_the_project_passes_its_test_and_follows_its_stream(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    written = await run_projectionist("init", cwd=tmp_path)
    assert written.code == 0, written.err
    assert "Next: projectionist dev up && projectionist migrate" in written.out
    assert "2 passed" in await python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    addresses = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
    }
    assert (await run_projectionist("migrate", "--streams", cwd=tmp_path, **addresses)).code == 0
    try:
        assert "placed by bob" in await python(tmp_path, "-m", "orders.publish", "bob", **addresses)
        async with projectionist("run", cwd=tmp_path, env=addresses) as process:
            await process.heard("worker.running")
            await python(tmp_path, "-m", "orders.publish", **addresses)
            await live.value_of(
                "select array_agg(customer order by customer) from order_summary", ["ann", "bob"]
            )
            process.signal(signal.SIGTERM)
            assert (await process.ended()).code == 0
        status = await run_projectionist("status", "--json", cwd=tmp_path, **addresses)
        [one] = json.loads(status.out)["consumers"]
        assert (one["name"], one["outcomes"]["applied"]) == ("OrderSummary", 2)
    finally:
        await live.nats.jetstream().delete_stream("ORDERS")
    live.tampered = True  # its stream is not the harness's


async def test_its_code_is_as_clean_as_ours(tmp_path: Path) -> None:
    init.write(tmp_path / "project")
    settings = ("--config", str(ROOT / "pyproject.toml"), "--ignore", "T201,INP001,S101")
    await python(tmp_path / "project", "-m", "ruff", "check", *settings, ".")
    await python(tmp_path / "project", "-m", "ruff", "format", "--check", *settings[:2], ".")
    await python(tmp_path / "project", "-m", "mypy", "--strict", "orders", "tests")


async def test_its_settings_name_files_for_secrets_and_have_no_place_for_one(tmp_path: Path) -> None:
    init.write(tmp_path / "project")
    text = (tmp_path / "project" / "projectionist.toml").read_text()
    meant = tomllib.loads(re.sub(r"^#(?=\[|\w)", "", text, flags=re.MULTILINE))
    assert {"password_file", "creds_file"} <= {*meant["postgres"], *meant["nats"]}
    assert urlsplit(meant["postgres"]["url"]).password is None


async def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    refused = await run_projectionist("init", cwd=tmp_path)
    assert refused.code == 1
    assert "is not empty: it holds mine.py" in refused.err
    assert not (tmp_path / "orders").exists()
    file = await run_projectionist("init", "mine.py", cwd=tmp_path)
    assert (file.code, "is a file" in file.err) == (1, True)


async def test_here_it_is_written_beside_files_of_ones_own_and_over_none(tmp_path: Path) -> None:
    for name in ("README.md", "orders"):
        (tmp_path / name).write_text("mine")
    refused = await run_projectionist("init", "--here", cwd=tmp_path)
    assert refused.code == 1
    assert "README.md, orders would be written over" in refused.err
    assert not (tmp_path / "projectionist.toml").exists()
    assert (tmp_path / "orders").read_text() == "mine"

    (tmp_path / "README.md").rename(tmp_path / "mine.md")
    (tmp_path / "orders").unlink()
    (tmp_path / "tests").mkdir()
    assert (await run_projectionist("init", "--here", cwd=tmp_path)).code == 0
    assert (tmp_path / "mine.md").read_text() == "mine"
    assert (tmp_path / "tests" / "test_orders.py").exists()


async def test_a_new_folder_is_made_and_hidden_files_of_ones_own_stay(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    made = await run_projectionist("init", "--json", cwd=tmp_path)
    assert ".gitignore" not in json.loads(made.out)["files"]
    assert (tmp_path / ".gitignore").read_text() == "mine\n"

    made = await run_projectionist("init", "deep/new", cwd=tmp_path / "orders")
    assert "Next: cd deep/new && projectionist dev up" in made.out
    assert (tmp_path / "orders" / "deep" / "new" / "projectionist.toml").is_file()

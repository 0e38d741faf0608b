"""`projectionist dev` as a user meets it, for root and for a normal user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.support import unprivileged
from tests.support.peers import patient
from tests.support.waiting import HANG_S

from projectionist.ops.embedded import binaries
from projectionist.ops.embedded.processes import until

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
as_another = pytest.mark.skipif(
    os.geteuid() != 0 or not unprivileged.account().can(binaries.nats_server(), "--version"),
    reason="needs root, and an environment that other accounts can reach",
)


@pytest.fixture
def project() -> Iterator[Path]:
    """An empty project that other accounts can reach, as a checkout in /srv would be."""
    folder = Path(tempfile.mkdtemp(prefix="projectionist-dev-"))
    folder.chmod(0o755)
    yield folder
    user = "tests.support.unprivileged" if folder.stat().st_uid != os.geteuid() else ""
    answer(run("dev", "reset", "--yes", "--json", cwd=folder, module=user))
    shutil.rmtree(folder)


@pytest.fixture(params=["ourselves", pytest.param("a normal user", marks=as_another)])
def projectionist(request: pytest.FixtureRequest, project: Path) -> Run:
    """The command line in `project`, as whoever runs the tests; for root, also as a normal user."""
    if request.param == "ourselves":
        return lambda *arguments: run(*arguments, cwd=project)
    account = unprivileged.account()
    os.chown(project, account.uid, account.gid)
    return lambda *arguments: run(*arguments, cwd=project, module="tests.support.unprivileged")


def run(*arguments: str, cwd: Path, module: str = "") -> subprocess.CompletedProcess[str]:
    program = [str(Path(sys.executable).with_name("projectionist"))]
    return subprocess.run(
        [*([sys.executable, "-m", module] if module else program), *arguments],
        cwd=cwd,
        # Under another account coverage could not write what it found.
        env={k: v for k, v in os.environ.items() if not (module and k.startswith("COVERAGE"))}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def urls_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {name: url for name, url in answer(done).items() if name.endswith("_url")}


async def write(urls: dict[str, Any]) -> None:
    connection = await asyncpg.connect(urls["postgres_url"])
    await connection.execute("create table kept as select 'row' as what")
    assert await connection.fetchval("show fsync") == "on"
    assert await connection.fetchval("show listen_addresses") == "127.0.0.1"
    await connection.close()
    client = await patient(urls["nats_url"])
    await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await client.jetstream().publish("kept", b"message")
    await client.close()


async def read(urls: dict[str, Any]) -> list[str]:
    connection = await asyncpg.connect(urls["postgres_url"])
    row = await connection.fetchval("select what from kept")
    await connection.close()
    client = await patient(urls["nats_url"])
    message = await client.jetstream().get_msg("KEPT", 1)
    await client.close()
    return [row, (message.data or b"").decode()]


@pytest.mark.asyncio
async def test_data_outlives_killed_and_stopped_servers(projectionist: Run) -> None:
    urls = urls_of(projectionist("dev", "up", "--reveal", "--json"))
    await write(urls)
    assert await read(urls) == ["row", "message"]

    for server in answer(projectionist("dev", "status", "--json"))["servers"]:
        os.kill(server["pid"], signal.SIGKILL)
    assert until(lambda: projectionist("dev", "status").returncode == 3, HANG_S)
    assert urls_of(projectionist("dev", "up", "--reveal", "--json")) == urls
    assert await read(urls) == ["row", "message"]

    assert projectionist("dev", "down").returncode == 0
    status = projectionist("dev", "status", "--json")
    assert status.returncode == 3
    assert [server["pid"] for server in json.loads(status.stdout)["servers"]] == [0, 0]
    assert urls_of(projectionist("dev", "up", "--reveal", "--json")) == urls
    assert await read(urls) == ["row", "message"]


def test_up_and_status_are_one_document(projectionist: Run) -> None:
    up, status = (answer(projectionist("dev", act, "--reveal", "--json")) for act in ("up", "status"))
    assert up.keys() == status.keys()
    assert up["servers"] == status["servers"]
    assert up["up"] is status["up"] is True


APP = """
from projectionist.projections import Stream
from projectionist.runner import App

app = App(streams=[Stream("SHOP", "shop.order.{id}", source="shop-api")])
"""


@pytest.mark.asyncio
async def test_servers_come_up_with_the_streams_of_the_app(project: Path) -> None:
    (project / "projectionist.toml").write_text('app = "shop_app:app"\n')
    first = answer(run("dev", "up", "--reveal", "--json", cwd=project))
    assert [note[:20] for note in first["notes"]] == ["no stream was made: "]  # there is no such module yet
    (project / "shop_app.py").write_text(APP)
    assert answer(run("dev", "up", "--reveal", "--json", cwd=project))["notes"] == ["created stream SHOP"]
    client = await patient(first["nats_url"])
    found = await client.jetstream().stream_info("SHOP")
    await client.close()
    assert found.config.subjects == ["shop.order.*"]


def test_nats_syncs_each_message(projectionist: Run, project: Path) -> None:
    answer(projectionist("dev", "up", "--reveal", "--json"))
    assert "sync_interval: always" in (project / ".projectionist" / "nats.conf").read_text()


def test_data_is_deleted_only_when_told_so(projectionist: Run, project: Path) -> None:
    first = answer(projectionist("dev", "up", "--reveal", "--json"))
    refused = projectionist("dev", "reset")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert projectionist("dev", "status").returncode == 0
    assert projectionist("dev", "reset", "--yes").returncode == 0
    assert not (project / ".projectionist" / "postgres").exists()
    assert answer(projectionist("dev", "up", "--reveal", "--json"))["postgres_url"] != first["postgres_url"]


def test_a_command_in_a_folder_below_means_the_same_servers(projectionist: Run, project: Path) -> None:
    urls = urls_of(projectionist("dev", "up", "--reveal", "--json"))
    below = project / "shop"
    below.mkdir()
    user = "tests.support.unprivileged" if project.stat().st_uid != os.geteuid() else ""
    assert urls_of(run("dev", "up", "--reveal", "--json", cwd=below, module=user)) == urls


@as_another
def test_servers_of_a_user_are_not_followed_by_root(project: Path) -> None:
    account, user = unprivileged.account(), "tests.support.unprivileged"
    os.chown(project, account.uid, account.gid)
    urls = urls_of(run("dev", "up", "--reveal", "--json", cwd=project, module=user))
    for words in (("dev", "up"), ("dev", "down"), ("status",), ("dev", "reset", "--yes")):
        refused = run(*words, cwd=project)
        assert refused.returncode == 1
        assert f"belongs to {account.name}, and is not followed. Run as {account.name}" in refused.stderr
    assert urls_of(run("dev", "up", "--reveal", "--json", cwd=project, module=user)) == urls


def test_people_get_text(projectionist: Run) -> None:
    nothing = projectionist("dev", "status")
    assert nothing.returncode == 3
    assert "dev up" in nothing.stdout
    up = projectionist("dev", "up")
    assert "postgresql://" in up.stdout
    assert "nats://" in up.stdout
    assert "\x1b" not in up.stdout
    assert "postgresql://***@127.0.0.1:" in up.stdout
    password = urlsplit(urls_of(projectionist("dev", "up", "--reveal", "--json"))["postgres_url"]).password
    assert password is not None
    assert password not in up.stdout + projectionist("dev", "status", "--json").stdout
    status = projectionist("dev", "status").stdout
    assert "up (pid " in status
    assert status in up.stdout
    assert "stopped" in projectionist("dev", "down").stdout


@as_another
def test_servers_of_root_are_not_for_others(project: Path) -> None:
    urls = urls_of(run("dev", "up", "--reveal", "--json", cwd=project))
    for act in ("up", "down", "status"):
        refused = run("dev", act, cwd=project, module="tests.support.unprivileged")
        assert refused.returncode == 1
        assert "belongs to another user. Run as that user" in refused.stderr
    assert urls_of(run("dev", "up", "--reveal", "--json", cwd=project)) == urls


@as_root
def test_a_private_project_of_root_stays_private(project: Path) -> None:
    project.chmod(0o700)
    urls = answer(run("dev", "up", "--reveal", "--json", cwd=project))
    assert "cannot reach" in urls["notes"][0]
    assert project.stat().st_mode & 0o777 == 0o700
    data = Path(answer(run("dev", "status", "--json", cwd=project))["servers"][0]["data"])
    assert data.is_relative_to("/var/lib/projectionist")
    assert run("dev", "reset", "--yes", cwd=project).returncode == 0
    assert not data.parent.exists()

"""`examples/orders` as its page runs it: a request, its rows, its mail and its webhook, and its own tests."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.mail_server import mail_server
from tests.support.process import ROOT, run_projectionist
from tests.support.scrape import free_port
from tests.support.stub_provider import stub_provider
from tests.support.waiting import HANG_S, eventually

EXAMPLE = ROOT / "examples" / "orders"
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__")))


def test_the_example_is_short_and_written_from_the_front_door() -> None:
    files = [file for file in EXAMPLE.rglob("*") if file.suffix in {".py", ".toml", ".md"}]
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) < 300
    modules = {
        node.module or ""
        for file in files
        if file.suffix == ".py"
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
    }
    ours = {module for module in modules if module.startswith("projectionist")}
    assert ours == {"projectionist.api", "projectionist.testing"}


def test_the_examples_own_tests_pass(project: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"],  # as the page writes it
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


@asynccontextmanager
async def served(project: Path, env: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """The service under uvicorn, ready, and stopped by SIGTERM at the end."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", "--factory", "orders.web:main", "--port", str(port)),
        cwd=project,
        env={**os.environ, **env},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=HANG_S) as client:

            async def ready() -> bool:
                assert process.returncode is None
                try:
                    return (await client.get("/ready")).status_code == 200
                except httpx.ConnectError:
                    return False

            await eventually(ready)
            yield client
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(HANG_S):
            said = (await process.communicate())[1].decode()
        assert "Application shutdown complete" in said
        assert "Traceback" not in said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.asyncio
async def test_an_order_is_placed_paid_shown_mailed_and_packed(live: ConsumerHarness, project: Path) -> None:
    live.tampered = True  # its stream is not the harness's
    env = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
        "WAREHOUSE_SECRET": SECRET,
    }
    order: dict[str, Any] = {"id": "o-1", "email": "ann@example.org", "total_cents": 4200}
    async with mail_server(tls="none") as mails, stub_provider() as warehouse:
        settings = project / "projectionist.toml"
        text = settings.read_text("utf-8").replace("port = 1025", f"port = {mails.port}")
        settings.write_text(text.replace("http://127.0.0.1:8025/pack", warehouse.url("/pack")), "utf-8")
        migrated = await run_projectionist("migrate", "--streams", cwd=project, **env)
        assert migrated.code == 0, migrated.err
        try:
            async with served(project, env) as client:
                placed = await client.post("/orders", json=order)
                assert (placed.status_code, placed.json()) == (201, {"version": 1, "shown": True})
                paid = await client.post("/orders/o-1/payment", params={"version": 1})
                assert paid.json() == {"version": 2, "shown": True}
                late = await client.post("/orders/o-1/payment", params={"version": 1})
                assert late.status_code == 409
                shown = (await client.get("/orders/o-1")).json()
                assert shown == {"order_id": order.pop("id"), **order, "status": "paid"}

                async def delivered() -> bool:
                    return bool(mails.envelopes and warehouse.seen)

                await eventually(delivered)
        finally:
            await live.nats.jetstream().delete_stream("ORDERS")
    [mail], [hook] = mails.envelopes, warehouse.seen
    assert mail.rcpt_tos == ["ann@example.org"]
    assert b"We have received 4200 cents" in (mail.original_content or b"")
    assert json.loads(hook.body)["order_id"] == "o-1"

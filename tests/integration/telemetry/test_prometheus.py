"""A real Prometheus loads what is delivered, and scrapes real processes: `make alerts` brings one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from tests.integration.telemetry.test_scrape import some_history, telling
from tests.support.consumer_harness import ConsumerHarness
from tests.support.debian import program
from tests.support.process import ROOT, projectionist
from tests.support.scrape import free_port, get
from tests.support.shop import shop
from tests.support.traced_app import APP
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

DEPLOY = ROOT / "ops" / "deploy"


@asynccontextmanager
async def prometheus(folder: Path, places: Mapping[str, str]) -> AsyncIterator[int]:
    """Prometheus with the configuration that compose mounts, for the length of the block; where it answers.

    `places`: where the processes are that the configuration knows by the names of containers.
    """
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    for volume in compose["services"]["prometheus"]["volumes"]:
        source, target, _ = volume.split(":")
        text = (DEPLOY / source).read_text("utf-8").replace(": 15s", ": 1s")
        for name, place in places.items():
            text = text.replace(name, place)
        (folder / Path(target).name).write_text(text, "utf-8")
    config = folder / "prometheus.yml"
    check = (str(program("promtool")), "check", "config", str(config))
    checked = await asyncio.create_subprocess_exec(*check, stdout=asyncio.subprocess.DEVNULL)
    assert await checked.wait() == 0
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(str(program("prometheus")), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
        f"--web.listen-address=127.0.0.1:{port}",
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


async def asked(port: int, query: str) -> list[dict[str, Any]]:
    """What Prometheus answers; it has to take the query."""
    answer = await get(port, f"/api/v1/query?query={quote(query)}", version="1.0")
    assert answer.status == 200, (query, answer.text)
    found: list[dict[str, Any]] = json.loads(answer.text)["data"]["result"]
    return found


async def test_a_real_prometheus_scrapes_processes_fires_and_answers_every_dashboard(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await live.migrate(shop(live.stream).Orders)
    await some_history(live)
    ports = {"run": free_port(), "observe": free_port()}
    places = {"collector:8889": f"127.0.0.1:{ports['run']}", "observe:9464": f"127.0.0.1:{ports['observe']}"}
    async with (
        projectionist("run", APP, env=telling(live, ports["run"])) as runner,
        projectionist("observe", APP, env=telling(live, ports["observe"])) as observer,
    ):
        await runner.heard("worker.running")
        await observer.heard("telemetry.observed")
        async with prometheus(tmp_path, places) as port:

            async def fires() -> bool:
                found = {
                    row["metric"]["alertname"] for row in await asked(port, 'ALERTS{alertstate="firing"}')
                }
                assert {"ProjectionistParkedFailed", "ProjectionistQuarantined"} <= found, found
                return True

            await eventually(fires)
            for board in sorted((ROOT / "ops/dashboards").glob("*.json")):
                shown = 0
                for expression in expressions(board):
                    shown += bool(await asked(port, expression))
                assert shown, f"{board.name} shows nothing at all"

            async def scraped() -> bool:
                """The alerts may have fired by what one of both told."""
                names = {row["metric"]["job"] for row in await asked(port, "up == 1")}
                assert names == {"projectionist", "projectionist-observe"}
                return True

            await eventually(scraped)


def expressions(board: Path) -> list[str]:
    """Every query of a dashboard, with all values of its variables."""
    panels = json.loads(board.read_text("utf-8"))["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    return [re.sub(r"\$\w+", ".*", expression) for expression in found]

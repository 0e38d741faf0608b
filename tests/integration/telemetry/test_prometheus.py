"""A real Prometheus loads the rules and scrapes a real process: `make alerts` brings one."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.integration.telemetry.test_scrape import some_history, telling
from tests.support.process import ROOT, projectionist
from tests.support.rig import Rig
from tests.support.scrape import free_port, get
from tests.support.shop import shop
from tests.support.traced_app import APP
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here: make alerts"),
]

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs: [{{job_name: shop, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""


async def test_a_real_prometheus_scrapes_a_process_and_an_alert_fires(live: Rig, tmp_path: Path) -> None:
    await live.migrate(shop(live.stream).Orders)
    await some_history(live)
    port, own = free_port(), free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(rules=ROOT / "ops/alerts/projectionist.yml", port=port))
    async with projectionist("run", APP, env=telling(live, port)) as runner:
        await runner.heard("telemetry.observed", 3)
        prometheus = await asyncio.create_subprocess_exec(
            *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"),
            f"--web.listen-address=127.0.0.1:{own}",
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:

            async def fires() -> bool:
                asked = quote('ALERTS{alertstate="firing"}')
                answer = await get(own, f"/api/v1/query?query={asked}", version="1.0")
                assert answer.status == 200
                found = {row["metric"]["alertname"] for row in json.loads(answer.text)["data"]["result"]}
                assert {"ProjectionistParkedFailed", "ProjectionistQuarantined"} <= found
                return True

            await eventually(fires, seconds=30)
        finally:
            prometheus.terminate()
            await prometheus.wait()
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0

"""How a rebuild tells how far it is: a bar for who watches, lines for a log."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from pathlib import Path

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import ROOT, run_projectionist
from tests.support.rebuilding import RebuildHarness, shop_app
from tests.support.shop import OrderPlaced, shop

pytestmark = pytest.mark.asyncio

ORDERS = 300


async def filled(harness: ConsumerHarness) -> None:
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    await harness.publish_all([(OrderPlaced("ann", n), f"o{n}", 1, f"e{n}") for n in range(ORDERS)])
    await harness.settle(s.Orders)


async def test_on_a_terminal_one_line_is_written_over_with_a_bar_for_each_phase(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    await filled(rebuilds.harness)
    master, slave = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "projectionist.ops",
                "rebuild",
                "orders:app",
                "Orders",
                "--throttle",
                "1000",
            ),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **shop_app(tmp_path, rebuilds.harness)},
            stdout=asyncio.subprocess.PIPE,
            stderr=slave,
        )
        out, _ = await process.communicate()
        os.set_blocking(master, False)
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(slave)
        os.close(master)

    assert process.returncode == 0, shown
    assert b"generation 2 is live" in out
    assert "\r\x1b[2KOrders: " in shown
    assert re.search(r"Orders: \w+ \[#{24}\] 100%  [\d,]+/s  0 s left", shown), shown
    assert "\x1b" not in out.decode()


async def test_without_a_terminal_phases_are_log_lines_and_json_is_one_object(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    await filled(rebuilds.harness)

    ended = await run_projectionist(
        *("rebuild", "orders:app", "Orders", "--json"), cwd=tmp_path, **shop_app(tmp_path, rebuilds.harness)
    )

    assert ended.code == 0, ended.err
    assert "\x1b" not in ended.err
    assert f"{ORDERS} to do" in ended.err
    assert ended.out.startswith('{\n  "rebuilt": [')


async def test_a_throttled_rebuild_reads_no_faster_than_it_was_told(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    await filled(rebuilds.harness)
    began = asyncio.get_running_loop().time()

    ended = await run_projectionist(
        *("rebuild", "orders:app", "Orders", "--throttle", "100"),
        cwd=tmp_path,
        **shop_app(tmp_path, rebuilds.harness),
    )

    assert ended.code == 0, ended.err
    assert asyncio.get_running_loop().time() - began >= ORDERS / 100

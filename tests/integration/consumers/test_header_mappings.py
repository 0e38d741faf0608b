"""Processes of one consumer that read an event's parts from different headers are told of, by whoever looks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPlaced, shop

from projectionist.core.settings.settings import Headers, Policy
from projectionist.ops.doctor.check import Check
from projectionist.ops.doctor.examine import examine
from projectionist.runner import App

pytestmark = pytest.mark.asyncio
OTHER = Headers(version="X-Version", time="CE-Time")


async def examined(live: ConsumerHarness, cls: type, policy: Policy) -> list[Check]:
    app, settings = App(projections=[cls]), msgspec.structs.replace(live.settings, consumer_defaults=policy)
    found = await examine(app, app.definitions, settings)
    return [one for one in found.checks if one.name == "headers"]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "different headers" in one.getMessage()]


async def shown(cli: Cli) -> list[dict[str, Any]]:
    attention = (await cli.seen("status"))["attention"]
    return [one for one in attention if "different headers" in one["text"]]


async def test_processes_that_read_different_headers_are_told_once_and_shown(
    live: ConsumerHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "projectionist")
    s, cli = shop(live.stream), Cli(live, tmp_path)
    mapped = msgspec.structs.replace(live.policy, headers=OTHER)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        assert await shown(cli) == []
        assert await examined(live, s.Orders, live.policy) == []
        [alone] = await examined(live, s.Orders, mapped)
        assert "x-version (the settings here)" in alone.found

        async with live.running(s.Orders, policy=mapped):
            await inspection.reaches(2, inspection.count_running, live)
            [one] = await shown(cli)
            [found] = await examined(live, s.Orders, live.policy)
    [line] = told(caplog)
    pid = await live.value("select host || ':' || pid from {s}.runners limit 1")
    for text in (one["text"], found.found, line):
        assert "version from ce-aggregateversion (" in text
        assert f"and x-version ({pid}" in text
        assert "time" not in text, "the names of headers have no case"
    assert one["about"] == "Orders"
    assert "[consumers.Orders]" in one["remedy"]
    assert found.level == "attention"
    assert line.startswith("Orders: ")


async def test_a_process_that_has_stopped_is_compared_with_nobody(
    live: ConsumerHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "projectionist")
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders, policy=msgspec.structs.replace(live.policy, headers=OTHER))
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        assert await shown(Cli(live, tmp_path)) == []
        assert await examined(live, s.Orders, live.policy) == []
    assert told(caplog) == []

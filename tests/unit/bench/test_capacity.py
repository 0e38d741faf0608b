"""The simulation of machines agrees with what can be reckoned, and with the page that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from projectionist.bench.capacity import Costs, Machines, rate, table

ROOT = Path(__file__).parents[3]
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
FREE = Costs(commit_ms=0.0)


def test_one_process_ends_at_one_core_and_one_core_of_the_database_at_its_own() -> None:
    assert rate(Machines(1, 8, 8, trip_ms=0), FREE) == pytest.approx(1e6 / FREE.runner_us, rel=0.02)
    assert rate(Machines(8, 8, 1, trip_ms=0), FREE) == pytest.approx(1e6 / FREE.postgres_us, rel=0.02)


def test_a_long_way_costs_its_round_trips_and_a_second_batch_hides_them() -> None:
    alone = Costs(runner_us=0.0, postgres_us=0.0, commit_ms=3.0)
    assert rate(Machines(1, 1, 1, trip_ms=1.0), alone) == pytest.approx(2 * 1_000 / 0.020, rel=0.02)
    assert rate(Machines(8, 8, 8, trip_ms=1.0)) < rate(Machines(8, 8, 8))


def test_machines_that_share_their_cores_settle_what_the_costs_leave_them() -> None:
    total = FREE.runner_us + FREE.postgres_us + FREE.nats_us
    assert rate(Machines(4, 2, trip_ms=0), FREE) == pytest.approx(2e6 / total, rel=0.05)


def test_the_page_shows_what_the_simulation_says() -> None:
    assert table() in (ROOT / "docs" / "scaling.md").read_text("utf-8")


def test_the_simulation_is_fed_with_the_costs_that_were_measured() -> None:
    line = r"^\| product \|  \|  \| ([\d,]+) \| ([\d.]+), ([\d.]+), ([\d.]+) \| (\d+) \|"
    found = re.search(line, BENCHMARKS, re.MULTILINE)
    assert found is not None
    measured, *costs = (float(one.replace(",", "")) for one in found.groups())
    assert costs == [*Costs()[:4]]
    assert 0.7 < measured / rate(Machines(1, 2)) < 1

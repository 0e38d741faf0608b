"""`projectionist bench live` as a user calls it; servers of its own are tested as installed, in packaging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.process import run_projectionist
from tests.support.servers import Servers

from projectionist.bench import latency, live, size
from projectionist.bench.contenders import variants
from projectionist.bench.suite import Asked, suite
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings

pytestmark = pytest.mark.asyncio

REPOSITORY = Path(__file__).parents[2]
BRIEF = latency.LatencyPlan(rates=(50, 400), seconds=0.3, warm_s=0.1)
SMALL = ("bench", "live", "--events", "2000", "--aggregates", "200", "--repeats", "1")


def addresses(servers: Servers, database: str) -> dict[str, str]:
    return {"PROJECTIONIST_POSTGRES__URL": database, "PROJECTIONIST_NATS__URL": servers.nats_url}


async def test_it_prints_ratios_for_programs_and_none_is_out_of_all_bounds(
    servers: Servers, database: str, tmp_path: Path
) -> None:
    """The bounds on processor time are wide: what falls through is something done for each event."""
    several = ("bench", "live", "--events", "10000", "--aggregates", "1000", "--repeats", "1", "--json")
    ended = await run_projectionist(*several, cwd=tmp_path, **addresses(servers, database))
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    live = found["live"]
    assert live["skipped"] == {}
    for name in ("twin", "drain", "faststream"):
        expected = live["product"]["events_per_s"] / live[name]["events_per_s"]
        assert live[f"ratio_{name}"] == pytest.approx(expected, rel=0.01)
    assert 0 < live["lone_visible_ms"]["p50"] <= live["lone_visible_ms"]["p99"]
    assert live["product"]["rss_mb"] > 0
    assert found["settings"]["events"] == 10_000
    # By the clock, one stall of a busy machine is as long as the whole run of one contender.
    spent = {name: live[name]["cpu_ms_per_1000"] for name in ("product", "twin", "faststream", "one")}
    assert spent["product"] < 4 * spent["twin"]
    assert spent["product"] < spent["faststream"] / 4
    assert spent["product"] < spent["one"] / 2
    assert found["settings"]["servers"] == "given"
    assert {"postgresql", "nats-server", "python", "projectionist"} <= set(found["versions"])
    assert found["machine"]["cores"] > 0


async def test_two_revisions_are_compared_and_what_they_took_is_told_by_process(
    servers: Servers, database: str
) -> None:
    small = ("--events", "500", "--aggregates", "50", "--repeats", "1", "--json")
    ended = await run_projectionist(
        "bench", "compare", "HEAD", "HEAD", *small, cwd=REPOSITORY, **addresses(servers, database)
    )
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["compare"]
    assert found["revisions"] == {"old": "HEAD", "new": "HEAD"}
    assert (found["old"]["events"], found["new"]["events"]) == (500, 500)
    assert found["differences"]["events/s"]["ratio"] > 0
    assert not any(one["beyond_noise"] for one in found["differences"].values())


async def test_revisions_are_for_a_comparison_alone(servers: Servers, database: str, tmp_path: Path) -> None:
    for words in (("live", "HEAD"), ("compare",), ("compare", "HEAD")):
        ended = await run_projectionist("bench", *words, cwd=tmp_path, **addresses(servers, database))
        assert (ended.code, ended.out) == (2, "")
        assert "two revisions" in ended.err


async def test_latencies_at_each_rate_and_sizes_with_their_picture(
    servers: Servers, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, with a moment for each rate and small sizes: there are no options for that."""
    settings = Settings(postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),)))
    said: list[str] = []
    found = (await suite("latency", Asked(latency_plan=BRIEF), settings, None, said.append)).document[
        "latency"
    ]
    for name in ("visible_ms", "called_ms", "faststream_visible_ms"):
        for rate in ("50", "400"):
            shares = found[name][rate]
            assert 0 < shares["p50"] <= shares["p90"] <= shares["p99"] <= shares["p999"]
            assert shares["events"] >= 10

    for sizes in ("AGGREGATES", "PAYLOAD", "BACKLOG"):
        monkeypatch.setattr(size, sizes, (10,))
    small = Asked(events=100, aggregates=10, repeats=1, inbox_rows=1000)
    report = await suite("size", small, settings, None, said.append)
    assert set(report.document["size"]["inbox_rows"]) == {"0", "100", "1000"}
    assert set(report.document["size"]["projections"]) == {"1", "2", "4"}
    assert report.document["size"]["inbox_10m_ratio"] > 0
    assert report.plot.startswith("<svg")


@pytest.mark.deadline(900)  # all contenders, one after the other, each with servers to warm up
async def test_one_run_of_all_tells_every_figure_that_has_a_goal(
    servers: Servers, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TRACED_ROUNDS", 1)
    monkeypatch.setattr(live, "variants", lambda _: {"plain": variants()["plain"]})
    settings = Settings(postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),)))
    said: list[str] = []
    asked = Asked(events=500, aggregates=50, repeats=1, latency_plan=BRIEF)
    report = await suite("all", asked, settings, None, said.append)
    found = json.loads(json.dumps(msgspec.to_builtins(report.document)))
    for name in ("live.ratio_twin", "live.ratio_faststream", "live.ratio_drain", "live.ratio_one"):
        assert figure(found, name) > 0
    for name in ("live.cost_tracing_unsampled", "live.cost_tracing_1pct"):
        assert figure(found, name) < 1
    for name in ("rebuild.ratio_drain", "rebuild.ratio_twin", "relay.ratio_twin", "relay.ratio_pgqueuer"):
        assert figure(found, name) > 0
    for rate in ("50", "400"):
        assert (
            0
            < figure(found, f"latency.visible_ms.{rate}.p50")
            <= figure(found, f"latency.visible_ms.{rate}.p99")
        )
    for name in ("live", "rebuild", "relay"):
        assert 10 < figure(found, f"rss_mb.{name}") < 500
    assert [line for line in said if line.startswith("--")] == [
        "-- live",
        "-- rebuild",
        "-- relay",
        "-- latency",
    ]
    assert "What telemetry costs" in report.text


def figure(document: dict[str, Any], name: str) -> float:
    found: Any = document
    for part in name.split("."):
        found = found[part]
    assert isinstance(found, int | float)
    return found


async def test_what_cannot_be_measured_is_refused_with_a_remedy(
    servers: Servers, database: str, tmp_path: Path
) -> None:
    given = addresses(servers, database)
    ended = await run_projectionist(*SMALL, "--sync", "always", cwd=tmp_path, **given)
    assert (ended.code, "Set sync_interval in your NATS server" in ended.err) == (1, True)
    ended = await run_projectionist(*SMALL, cwd=tmp_path, PROJECTIONIST_POSTGRES__URL=database)
    assert (ended.code, "Set both, or neither" in ended.err) == (1, True)
    ended = await run_projectionist("bench", "live", "--events", "0", cwd=tmp_path)
    assert (ended.code, "must be 1 or more" in ended.err) == (2, True)

"""What a benchmark is made of, without servers: its events, what its processes are told, and what it says."""

from __future__ import annotations

from uuid import UUID
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from projectionist.bench import contenders, latency, size
from projectionist.bench.figures import costs_of
from projectionist.bench.live import LiveFigures, Rounds
from projectionist.bench.load import Load, messages
from projectionist.bench.lone import Lone
from projectionist.bench.meters import Used
from projectionist.bench.report import document, text
from projectionist.bench.scene import Scene, environment
from projectionist.bench.trial import Cost
from projectionist.core.settings.secret import Secret, Url
from projectionist.core.settings.settings import Nats, Postgres, Settings, load

LOAD = Load(events=500, aggregates=20, payload=300)
SCENE = Scene(stream="S", schema="bench_1", durables=("d",), consumer=7)


def test_the_same_load_is_the_same_events() -> None:
    assert list(messages(LOAD)) == list(messages(LOAD))


def test_every_order_gets_its_versions_in_order_and_bodies_have_the_size_asked_for() -> None:
    versions: dict[str, int] = {}
    for message in messages(LOAD):
        versions[message.order] = versions.get(message.order, 0) + 1
        assert message.headers["ce-aggregateversion"] == str(versions[message.order])
        assert message.headers["ce-type"] == (
            "order.placed" if versions[message.order] == 1 else "order.changed"
        )
        assert len(message.body) == 300
        assert len(message.headers) == 5
    assert len(versions) == 20


def test_ids_rise_with_time_unless_random_ones_are_wanted() -> None:
    ids = [message.headers["ce-id"] for message in messages(LOAD)]
    assert ids == sorted(ids)
    assert {UUID(text).version for text in ids} == {7}
    chance = Load(events=500, aggregates=20, payload=300, random_ids=True)
    others = [message.headers["ce-id"] for message in messages(chance)]
    assert others != sorted(others)
    assert len(set(ids)) == len(set(others)) == 500


def test_duplicates_and_late_events_are_as_many_as_asked_for_and_nothing_is_missing() -> None:
    load = Load(events=10_000, aggregates=50, payload=100, duplicates=0.1, gaps=0.01)
    found = list(messages(load))
    assert len(found) == load.messages == 11_000
    assert {one.headers["ce-id"] for one in found} == {one.headers["ce-id"] for one in messages(PLAIN)}
    versions, seen, late = dict[str, int](), set[str](), 0
    for one in found:
        version, name = int(one.headers["ce-aggregateversion"]), one.headers["ce-id"]
        late += version < versions.get(one.order, 0) and name not in seen
        seen.add(name)
        versions[one.order] = max(version, versions.get(one.order, 0))
    assert 95 <= late <= 100, "but for those that nothing overtakes"


PLAIN = Load(events=10_000, aggregates=50, payload=100)


def test_a_process_of_a_scene_gets_the_servers_and_no_other_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROJECTIONIST_BATCH__MAX_ROWS", "7")
    postgres = Postgres(url=Url("postgresql://u:p@db.example/x"), tls="require", schema="live")
    nats = Nats(url=(Url("nats://a.example"), Url("nats://b.example")), token=Secret("t"))
    told = environment(Settings(postgres=postgres, nats=nats), SCENE)
    found = load(None, told)
    assert found.postgres == Postgres(url=postgres.url, tls="require", schema="bench_1")
    assert found.nats == replace(nats, inbox_prefix="_INBOX_live")
    assert found.batch == Settings().batch


def test_a_missing_peer_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "find_spec", lambda _: None)
    part, skipped = contenders.contenders(Nats(), past=0)
    assert set(part) == {"product", "twin", "drain", "one", "one_16"}
    assert "pip install 'projectionist[bench]'" in skipped["faststream"]


def test_a_peer_that_could_not_log_in_is_left_out() -> None:
    part, skipped = contenders.contenders(Nats(token=Secret("t")), past=0)
    assert "faststream" not in part
    assert "URL alone" in skipped["faststream"]


def test_an_inbox_of_ones_own_keeps_no_contender_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "find_spec", lambda name: name)
    part, skipped = contenders.contenders(Settings().nats, past=0)

    assert ("faststream" in part, skipped) == (True, {})


def measured() -> LiveFigures:
    """The product takes 2 and 4 seconds, the twin 1 and 3."""
    rounds = {"product": (2.0, 4.0), "twin": (1.0, 3.0)}
    costs = {
        name: [Cost(events=1000, seconds=s, cpu_s=0.5, rss_mb=40) for s in taken]
        for name, taken in rounds.items()
    }
    titles = {"product": "the product", "twin": "its twin"}
    lone = Lone(2.0, 3.0, 4.0, 500)
    return LiveFigures(Rounds(titles, costs), {"faststream": "it is not installed"}, lone, {"product": 12.5})


def test_a_ratio_is_the_median_of_those_inside_the_rounds() -> None:
    found = document(measured())
    assert found["live"]["ratio_twin"] == 0.625
    assert found["live"]["ratio_twin_spread"] == [0.5, 0.75]
    assert found["live"]["ratio_faststream"] is None
    assert found["live"]["statements_per_1000"] == {"product": 12.5}
    assert found["live"]["product"]["events_per_s"] == 375
    assert found["live"]["product"]["cpu_ms_per_1000"] == 500


def test_what_the_servers_used_is_the_difference_where_it_is_known() -> None:
    assert Used(3.0, None, 900).since(Used(1.0, None, 400)) == Used(2.0, None, 500)
    cost = Cost(events=500, seconds=1.0, cpu_s=0.5, rss_mb=40, used=Used(2.0, None, 500))
    found = costs_of([cost])
    assert (found["postgres_cpu_ms_per_1000"], found["nats_cpu_ms_per_1000"]) == (4000, None)
    assert found["wal_bytes_per_1000"] == 1000


def test_shares_of_latencies_are_values_that_were_measured() -> None:
    found = latency.figures([float(n) for n in range(1000, 0, -1)])
    assert found == {"p50": 501, "p90": 901, "p99": 991, "p999": 1000, "events": 1000}
    assert latency.figures([7.0])["p999"] == 7.0
    shown = latency.text(latency.LatencyResult({"visible_ms": {100: found}}, {}))
    assert "publish to row visible" in shown
    measured = latency.LatencyResult({"visible_ms": {100: found}}, {"faststream": "why"})
    assert latency.document(measured)["latency"]["visible_ms"]["100"]["p50"] == 501


def test_curves_are_drawn_as_a_picture_that_is_whole() -> None:
    found = {"aggregates": {100: [3.0, 1.0], 1000: [2.0, 4.0]}, "inbox_rows": {0: [4.0, 2.0], 10: [3.0, 1.0]}}
    picture = ET.fromstring(size.plot(found))  # noqa: S314  our own
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "events/s by aggregates" in texts
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert size.document(found)["size"]["inbox_10m_ratio"] == 0.625
    assert size.document(found)["size"]["aggregates"] == {"100": 2.0, "1000": 3.0}


def test_people_read_the_ratio_first_and_who_was_left_out() -> None:
    lines = text(measured(), LOAD).splitlines()
    assert lines[3].startswith("ratio")
    assert lines[6].startswith("0.62")
    assert "faststream: left out, it is not installed" in lines
    assert "Statements for 1,000 events: product 12." in text(measured(), LOAD)

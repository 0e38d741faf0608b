"""Several scrapes become one that Prometheus takes."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from projectionist.ops.workers.scrape_merge import merged

ONE = """\
# HELP events_total Outcomes.
# TYPE events_total counter
events_total{outcome="applied {x} 1"} 3.0
# HELP lag Lag.
# TYPE lag gauge
lag 2.0
"""
TWO = """\
# HELP events_total Outcomes.
# TYPE events_total counter
events_total{outcome="applied {x} 1"} 4.0
# HELP took_seconds How long.
# TYPE took_seconds histogram
took_seconds_bucket{le="+Inf"} 1.0
took_seconds_count 1.0
took_seconds_sum 0.5
"""


def test_each_family_is_told_once_with_the_series_of_all_workers_by_their_numbers() -> None:
    text = merged({"": "# HELP up Up.\n# TYPE up gauge\nup 1.0\n", "1": ONE, "2": TWO})
    assert text.count("# TYPE events_total") == 1
    found = {
        (sample.name, sample.labels.get("projectionist_worker")): (sample.value, sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert {key: value for key, (value, _) in found.items()} == {
        ("up", None): 1,
        ("events_total", "1"): 3,
        ("events_total", "2"): 4,
        ("lag", "1"): 2,
        ("took_seconds_bucket", "2"): 1,
        ("took_seconds_count", "2"): 1,
        ("took_seconds_sum", "2"): 0.5,
    }
    assert found["events_total", "1"][1]["outcome"] == "applied {x} 1"


def test_a_worker_that_says_nothing_takes_nothing_from_the_others() -> None:
    assert merged({"1": ONE, "2": ""}) == merged({"1": ONE})
    assert merged({}) == ""

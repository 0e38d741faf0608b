"""What `migrate --streams` would do to a stream: it makes and grows, and tells of what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from projectionist.projections import Stream
from projectionist.runner.jetstream.api import Origin, StreamConfig, Transform
from projectionist.runner.jetstream.stream_plan import StreamPlan, plan

DAY = 86_400 * 10**9


def declared(subject: str = "shop.order.{id}", **options: Any) -> Stream:
    return Stream("SHOP", subject, source="shop-api", **options)


def compared(found: StreamConfig | None, subject: str = "shop.order.{id}", **options: Any) -> StreamPlan:
    return plan(declared(subject, **options), found, {})


def there(**config: Any) -> StreamConfig:
    known: dict[str, Any] = {"subjects": ["shop.order.*"], "duplicate_window": 120 * 10**9}
    return StreamConfig(**known | config)


def test_a_missing_stream_is_made_to_keep_everything() -> None:
    made = compared(None)
    assert made.what == "create"
    assert made.config == {
        "name": "SHOP",
        "subjects": ["shop.order.*"],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
        "duplicate_window": 120 * 10**9,
        "discard": "old",
    }
    assert made.notes == ()


def test_a_missing_stream_is_made_with_what_is_declared() -> None:
    made = compared(None, replicas=3, max_age_s=60, max_bytes=1000, subjects=["shop.legacy"])
    assert made.config["num_replicas"] == 3
    assert (made.config["max_age"], made.config["duplicate_window"]) == (60 * 10**9, 60 * 10**9)
    assert (made.config["max_bytes"], made.config["discard"]) == (1000, "new")
    assert made.changes == (
        "takes shop.order.*, shop.legacy",
        "replicas = 3",
        "max_bytes = 1000",
        "max_age_s = 60",
    )
    assert [note[:26] for note in made.notes] == ["an event goes after 60 s, ", "beyond 1,000 bytes the str"]


@pytest.mark.parametrize(
    "found",
    [
        there(),
        there(subjects=["shop.>"]),
        there(subjects=["other", "shop.*.*"], num_replicas=3, max_age=DAY, max_bytes=5, discard="new"),
        there(sources=[Origin("ELSEWHERE")]),
        there(subject_transform=Transform("other.*", "shop.order.$1")),
    ],
)
def test_what_is_not_declared_is_left_as_it_is(found: StreamConfig) -> None:
    assert compared(found) == StreamPlan(stream="SHOP")


@pytest.mark.parametrize(
    ("found", "options", "config"),
    [
        (there(subjects=["other.*"]), {}, {"subjects": ["other.*", "shop.order.*"]}),
        (
            there(subjects=["shop.order.1", "b"]),
            {"subjects": ["c.>"]},
            {"subjects": ["b", "shop.order.*", "c.>"]},
        ),
        (there(), {"replicas": 3}, {"num_replicas": 3}),
        (there(max_age=DAY), {"max_age_s": 2 * 86_400}, {"max_age": 2 * DAY}),
        (there(max_bytes=10, discard="new"), {"max_bytes": 20}, {"max_bytes": 20}),
        (there(), {"duplicate_window_s": 300}, {"duplicate_window": 300 * 10**9}),
    ],
)
def test_a_stream_grows_to_what_is_declared(
    found: StreamConfig, options: dict[str, Any], config: dict[str, Any]
) -> None:
    made = compared(found, **options)
    assert (made.what, made.config, made.differences) == ("update", config, ())
    assert len(made.changes) == 1


@pytest.mark.parametrize(
    ("found", "options", "word", "mend"),
    [
        (there(num_replicas=3), {"replicas": 1}, "replicas is 3 and declared as 1", "--replicas 1"),
        (there(), {"max_age_s": 86_400}, "max_age_s is without limit", "--max-age 86400s"),
        (there(max_age=2 * DAY), {"max_age_s": 86_400}, "max_age_s is 172800", "--max-age 86400s"),
        (there(discard="new"), {"max_bytes": 9}, "max_bytes is without limit", "--max-bytes 9"),
        (there(), {"duplicate_window_s": 10}, "duplicate_window_s is 120", "--dupe-window 10s"),
        (there(max_bytes=9), {"max_bytes": 9}, "drops the oldest", "--discard new"),
        (there(subjects=["shop.*.7"]), {}, "shop.*.7, which overlaps", "--subjects"),
        (there(retention="workqueue"), {}, "retention workqueue", "another name"),
        (
            there(max_msgs_per_subject=1),
            {},
            "limited number of messages per subject",
            "nats stream edit SHOP",
        ),
        (there(allow_msg_ttl=True), {}, "time to live", "nats stream edit SHOP"),
        (
            there(subject_transform=Transform("shop.>", "kept.>")),
            {},
            "shop.order.* is stored as kept.order.*",
            "Take the transform off",
        ),
        (there(mirror=Origin("MAIN")), {}, "a mirror of MAIN", "Declare MAIN"),
    ],
)
def test_what_would_shrink_or_cannot_be_changed_is_told_with_a_remedy(
    found: StreamConfig, options: dict[str, Any], word: str, mend: str
) -> None:
    made = compared(found, **options)
    assert [word in one.found and mend in one.mend for one in made.differences] == [True]


def test_a_subject_that_another_stream_takes_is_told_and_nothing_is_done() -> None:
    for found in (None, there(subjects=["old"])):
        made = plan(declared(), found, {"shop.order.*": ["ALL"]})
        assert made.what == ""
        assert [one.found for one in made.differences] == ["shop.order.* is taken by stream ALL"]


def test_what_a_stream_will_keep_is_known_before_it_is_changed() -> None:
    found = there(max_age=DAY, max_bytes=10, discard="new")
    after = compared(found, max_age_s=2 * 86_400).resulting(found)
    assert (after.max_age, after.max_bytes, after.subjects) == (2 * DAY, 10, ["shop.order.*"])
    assert compared(None, max_age_s=60).resulting(None).max_age == 60 * 10**9

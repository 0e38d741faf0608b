"""Which subjects can come into a stream, by its configuration."""

from __future__ import annotations

import pytest

from projectionist.runner.jetstream.api import Origin, StreamConfig, Transform
from projectionist.runner.jetstream.stream_subjects import subjects, takes

LEGACY = Transform("legacy.*", "shop.order.{{wildcard(1)}}")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (StreamConfig(["shop.>"]), ["shop.>"]),
        (StreamConfig(), [">"]),
        (StreamConfig(["legacy.*"], subject_transform=LEGACY), ["shop.order.*"]),
        (StreamConfig(["legacy.7"], subject_transform=LEGACY), ["shop.order.7"]),
        (StreamConfig(["legacy.*", "own"], subject_transform=LEGACY), ["own", "shop.order.*"]),
        (StreamConfig(["legacy.>"], subject_transform=LEGACY), ["legacy.>", "shop.order.*"]),
        (StreamConfig(["a.*"], subject_transform=Transform("", "b.>")), ["b.a.*"]),
        (StreamConfig(["own"], republish=Transform(">", "on.>")), ["own"]),
        (StreamConfig(sources=[Origin("A")]), [">"]),
        (StreamConfig(["own"], sources=[Origin("A", "a.*"), Origin("B", "b.*")]), ["a.*", "b.*", "own"]),
        (StreamConfig(["own"], sources=[Origin("A", subject_transforms=[LEGACY])]), ["own", "shop.order.*"]),
        (StreamConfig(["own"], sources=[Origin("A", subject_transforms=[Transform("x.*")])]), ["own", "x.*"]),
        (StreamConfig(mirror=Origin("A")), [">"]),
        (StreamConfig(mirror=Origin("A", "a.*")), ["a.*"]),
        (StreamConfig(mirror=Origin("A", subject_transforms=[LEGACY])), ["shop.order.*"]),
        (
            StreamConfig(["own"], sources=[Origin("A", "legacy.7")], subject_transform=LEGACY),
            ["own", "shop.order.7"],
        ),
    ],
)
def test_own_and_sourced_subjects_after_their_transforms(config: StreamConfig, expected: list[str]) -> None:
    assert subjects(config) == expected


def test_a_subject_is_taken_where_any_of_them_can_be_it() -> None:
    config = StreamConfig(["own"], sources=[Origin("A", "shop.>")])
    assert takes(config, "shop.order.7")
    assert takes(config, "*.order.7")
    assert not takes(config, "stock.item.7")

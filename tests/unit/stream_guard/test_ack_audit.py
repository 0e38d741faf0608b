"""When counts alone show that nothing between two floors is missing."""

from __future__ import annotations

import pytest

from projectionist.runner.batch.types import Batch
from projectionist.runner.stream_guard.ack_audit import adds_up


@pytest.mark.parametrize(
    ("acked", "delivered", "settled", "expected"),
    [
        (100, 110, 10, True),
        (100, 115, 10, True),  # redelivered, and every sequence there
        (None, 4, 10, True),
        (100, 103, 3, True),  # of others' messages in between none was delivered
        (100, 103, 2, False),
        (100, 109, 10, True),
        (None, 3, 3, False),
        (100, 3, 3, False),  # the durable was made anew meanwhile
        (0, 0, 0, False),  # moved ahead before anything was delivered
        (0, 3, 3, False),
    ],
)
def test_floors_add_up_by_sequence_or_by_delivery(
    acked: int | None, delivered: int, settled: int, expected: bool
) -> None:
    assert adds_up(50, 60, acked, delivered, settled) is expected


def test_an_empty_batch_settles_nothing() -> None:
    assert Batch().settles() == set()

"""Who is suspected after an unclean end, and which ends count as one."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.support.deliveries import delivery

from projectionist.runner.batch.types import Batch
from projectionist.runner.consumers.registry import INSTANCE, PLACE
from projectionist.runner.pipeline.crash_guard import SLOW_S, any_crashed, split_suspects

THEN = datetime(2026, 1, 1, tzinfo=UTC)


def row(**values: Any) -> dict[str, Any]:
    return {
        "number": 1,
        "host": "elsewhere",
        "pid": 1,
        "instance": uuid4(),
        "silent_s": 0.0,
        "beat": THEN,
    } | values


def test_an_event_delivered_three_times_is_tried_alone_with_its_aggregate_in_order() -> None:
    first, second = delivery(1, "order/bad"), delivery(2, "order/bad")
    first.delivered = 3
    other = delivery(1, "order/good")

    rest, suspects = split_suspects(Batch([second, other, first]), frozenset(), frozenset())

    assert rest is not None
    assert rest.deliveries == [other]
    assert [(one.deliveries, one.limit) for one in suspects] == [([first], 0), ([second], 0)]


def test_what_is_settled_already_is_no_suspect() -> None:
    known = delivery(1, "order/bad")
    known.delivered = 9

    rest, suspects = split_suspects(Batch([known]), frozenset({(known.source, known.id)}), frozenset())

    assert rest is not None
    assert rest.deliveries == [known]
    assert suspects == []


def test_what_was_parked_before_the_end_and_is_due_is_tried_one_by_one() -> None:
    old: frozenset[Any] = frozenset({"order/a", "order/b", ("shop", "c")})
    batch = Batch(due=["order/a", "order/b"], entries=[("shop", "c")])
    rest, suspects = split_suspects(batch, frozenset(), old)

    assert rest is None
    assert [(one.due, one.entries) for one in suspects] == [
        (["order/a"], ()),
        (["order/b"], ()),
        ((), [("shop", "c")]),
    ]


def test_what_was_parked_later_is_tried_together() -> None:
    batch = Batch(due=["order/a", "order/b"], entries=[("shop", "c"), ("shop", "d")])
    rest, suspects = split_suspects(batch, frozenset(), frozenset({"order/b", ("shop", "d")}))

    assert rest is not None
    assert (rest.due, rest.entries) == (["order/a"], [("shop", "c")])
    assert [(one.due, one.entries) for one in suspects] == [(["order/b"], ()), ((), [("shop", "d")])]


def test_the_last_end_counts_and_by_when_it_must_have_come() -> None:
    rows = [row(silent_s=9.0, beat=THEN), row(silent_s=7.0, beat=THEN + timedelta(seconds=2)), row()]

    assert any_crashed(rows, 5.0, lambda _: True) == THEN + timedelta(seconds=9)


def test_what_a_slow_process_parked_after_its_last_heartbeat_precedes_its_end() -> None:
    def end(silent_s: float) -> datetime | None:
        return any_crashed([row(instance=near(), pid=7, silent_s=silent_s)], 1.0, lambda _: False)

    assert end(0.5) == THEN + timedelta(seconds=1)
    assert end(20.0) == THEN + timedelta(seconds=20)
    assert end(600.0) == THEN + timedelta(seconds=SLOW_S)


def test_a_process_has_ended_uncleanly_if_it_is_silent_or_of_this_place_and_gone() -> None:
    assert not any_crashed([row()], 1.0, lambda _: True)
    assert any_crashed([row(silent_s=2.0)], 1.0, lambda _: True)
    assert any_crashed([row(instance=near(), pid=7)], 1.0, lambda _: False)
    assert not any_crashed([row(instance=near(), pid=7)], 1.0, lambda _: True)
    assert any_crashed([row(instance=near(), pid=os.getpid())], 1.0, lambda _: True)
    assert not any_crashed([row(instance=INSTANCE, pid=os.getpid())], 1.0, lambda _: False)
    assert any_crashed([row(instance=INSTANCE, pid=os.getpid())], 1.0, lambda _: True, {1})


def test_a_container_with_the_name_and_pid_of_this_one_is_another_process() -> None:
    """Every container's first process is number 1, and hosts may share a name."""
    twin = row(host=socket.gethostname(), pid=os.getpid())

    assert not any_crashed([twin], 1.0, lambda _: True)
    assert not any_crashed([twin], 1.0, lambda _: False)
    assert any_crashed([twin | {"silent_s": 2.0}], 1.0, lambda _: True)


def test_an_earlier_try_of_this_process_is_over_when_it_is_silent() -> None:
    assert any_crashed([row(instance=INSTANCE, pid=os.getpid(), silent_s=2.0)], 1.0, lambda _: True)


def near() -> UUID:
    """Another process of this machine and this container."""
    return UUID(bytes=PLACE + os.urandom(8))

"""What one process knows of a consumer, and when it must not go on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.servers import Stream
from tests.support.shop import shop

from projectionist.core.settings.settings import Policy
from projectionist.projections import definition
from projectionist.runner.batch.consumer import Consumer, ControlRow, Paused, Rejoin, Superseded, Tripped
from projectionist.runner.batch.context import BatchContext
from projectionist.runner.batch.position_cache import PositionCache


def consumer() -> Consumer:
    """A consumer that has joined epoch 1 with an effects mark of 10."""
    row = ControlRow.of([control(None)])
    orders = definition(shop(Stream("SHOP")).Orders)
    return Consumer.of_view(orders, Policy(), 1, "Orders", 7, slots={"New": "Old"}, control=row)


def control(of: Consumer | None, **given: Any) -> dict[str, Any]:
    """The control row."""
    return {
        "epoch": 1,
        "incarnation": 2,
        "view": 1001,
        "generation": 1,
        "code": b"" if of is None else of.code,
        "paused": False,
        "build": None,
        "slot": 0,
        "effects_incarnation": 2,
        "effects_mark": 10,
        "own_type": "order",
        "own_since": None,
        "repeats": False,
        "revision": 1,
        "breaker": None,
        "prober": None,
        "trouble": None,
    } | given


def test_other_code_in_the_control_row_stops_the_process() -> None:
    one = consumer()

    with pytest.raises(Superseded):
        one.check([control(one, code=b"newer")])
    with pytest.raises(Superseded):
        one.check([])


def test_a_paused_consumer_applies_nothing() -> None:
    one = consumer()

    with pytest.raises(Paused):
        one.check([control(one, paused=True)])


def test_an_open_breaker_lets_nobody_apply_and_a_half_open_one_the_prober_alone() -> None:
    one = consumer()

    with pytest.raises(Tripped, match="the breaker is open: 100 keys failed"):
        one.check([control(one, breaker="open", prober=one.runner, trouble="100 keys failed")])
    with pytest.raises(Tripped):
        one.check([control(one, breaker="half_open", prober=one.runner + 1, trouble="")])
    one.check([control(one, breaker="half_open", prober=one.runner, trouble="")])


@pytest.mark.parametrize("changed", [{"epoch": 2}, {"generation": 4}])
def test_another_epoch_is_joined_and_what_was_known_to_exist_is_forgotten(changed: dict[str, int]) -> None:
    one = consumer()
    context = BatchContext(one)
    context.positions.add(["order/o1"])

    one.check([control(one, **changed)])
    context.follow()

    assert one.control.stand != (1, 2, ((1001, 1),))
    assert context.positions.unknown(["order/o1"]) == ["order/o1"]


def test_a_batch_that_was_read_from_another_incarnation_of_the_stream_is_not_applied() -> None:
    one = consumer()

    with pytest.raises(Rejoin):
        one.check([control(one, incarnation=3)])


def test_an_unchanged_control_row_changes_nothing() -> None:
    one = consumer()
    context = BatchContext(one)
    context.positions.add(["order/o1"])

    one.check([control(one)])
    context.follow()

    assert context.positions.unknown(["order/o1"]) == []


@pytest.mark.parametrize(
    ("seq", "incarnation", "real"),
    [(9, 2, False), (10, 2, True), (99, 1, False), (1, 3, True)],
)
def test_the_effects_mark_divides_by_incarnation_and_sequence(seq: int, incarnation: int, real: bool) -> None:
    assert consumer().view.is_real(seq, incarnation) is real


def test_a_renamed_slot_goes_by_its_registered_name() -> None:
    assert consumer().view.frozen_slot("New") == "Old"
    assert consumer().view.frozen_slot("Receipt") == "Receipt"


def test_batches_have_numbers_that_no_other_process_uses() -> None:
    one = BatchContext(consumer())

    assert [one.next_batch(), one.next_batch()] == [7 << 32 | 1, 7 << 32 | 2]


def test_only_so_many_aggregates_are_remembered_and_the_oldest_are_forgotten() -> None:
    exists = PositionCache(most=3)
    exists.add(["a", "b"])
    exists.add(["c", "d"])

    assert exists.unknown(["a", "b", "c", "d"]) == ["a"]

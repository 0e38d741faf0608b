"""A batch that PostgreSQL refuses is taken apart until one event stands alone."""

from __future__ import annotations

from tests.support.deliveries import delivery, unreadable

from projectionist.runner.batch.types import Batch
from projectionist.runner.pipeline.bisect import divided, merged, units


def test_a_batch_of_several_aggregates_falls_apart_by_aggregate() -> None:
    one, two, other = delivery(1), delivery(2), delivery(1, "order/o2")

    parts = units(Batch([two, other, one]))

    assert [part.deliveries for part in parts] == [[two, one], [other]]


def test_one_aggregate_falls_apart_by_event_in_the_order_of_versions() -> None:
    one, two = delivery(1), delivery(2)

    assert [part.deliveries for part in units(Batch([two, one]))] == [[one], [two]]


def test_bisect_keeps_due_and_new_events_of_an_aggregate_together() -> None:
    new, other = delivery(5), delivery(1, "order/o2")

    together = units(Batch([new, other], due=["order/o1", "order/o3"]))
    assert [(part.deliveries, part.due) for part in together] == [
        ([new], ["order/o1"]),
        ([other], []),
        ([], ["order/o3"]),
    ]
    alone = units(Batch([new], due=["order/o1"]))
    assert [(part.deliveries, part.due) for part in alone] == [((), ["order/o1"]), ([new], ())]


def test_events_without_order_stand_alone() -> None:
    loose = [delivery(None, None, id=name) for name in "ab"]

    parts = units(Batch(loose, entries=[("shop", "c")]))

    assert [(list(part.deliveries), list(part.entries)) for part in parts] == [
        ([], [("shop", "c")]),
        ([loose[0]], []),
        ([loose[1]], []),
    ]


def test_what_cannot_be_read_is_a_part_of_its_own() -> None:
    bad = [unreadable(7)]

    parts = units(Batch([delivery(1)], bad))

    assert [(list(part.deliveries), list(part.unreadable)) for part in parts] == [
        ([], bad),
        ([delivery(1)], []),
    ]


def test_parts_put_together_are_the_batch_again() -> None:
    batch = Batch(
        [delivery(1), delivery(1, "order/o2")], [unreadable(7)], due=["order/o3"], entries=[("shop", "x")]
    )

    whole = merged(units(batch), 3)

    assert whole.limit == 3
    assert sorted(d.id for d in whole.deliveries) == ["order/o1:1", "order/o2:1"]
    assert (len(whole.unreadable), whole.due, whole.entries) == (1, ["order/o3"], [("shop", "x")])


def test_a_batch_splits_into_whole_aggregates_and_an_aggregate_into_ordered_shares() -> None:
    many = [delivery(version, f"order/o{number}") for number in range(20) for version in (2, 1)]
    lanes = divided(Batch(many), 100)
    assert [len(lane) for lane in lanes] == [1] * 7
    assert sorted(d.id for (part,) in lanes for d in part.deliveries) == sorted(d.id for d in many)
    assert all(len({d.aggregate for d in part.deliveries}) * 2 == len(part.deliveries) for (part,) in lanes)

    one = [delivery(version) for version in range(20, 0, -1)]
    (lane,) = divided(Batch(one, due=["order/o1"]), 100)
    assert [list(part.due) for part in lane] == [["order/o1"], *[[]] * 6]
    assert [d.version for part in lane for d in part.deliveries] == list(range(1, 21))


def test_whose_handler_was_running_has_a_lane_of_its_own_behind_all_others() -> None:
    some = [delivery(1, f"order/o{number}") for number in range(5)]

    (others,), (apart,) = divided(Batch(some), 100, "order/o3")

    assert [d.aggregate for d in apart.deliveries] == ["order/o3"]
    assert [d.aggregate for d in others.deliveries] == [f"order/o{n}" for n in (0, 1, 2, 4)]
    assert len(divided(Batch(some), 100, "order/o9")) == 5


def test_a_new_event_is_tried_without_its_drain_and_a_drain_in_ever_smaller_shares() -> None:
    assert [[part.limit for part in lane] for lane in divided(Batch([delivery(1)]), 100)] == [[0]]
    assert divided(Batch([delivery(1)], limit=0), 100) == []

    assert [[part.limit for part in lane] for lane in divided(Batch(due=["order/o1"]), 100)] == [[12]]
    assert divided(Batch(due=["order/o1"], limit=12), 100)[0][0].limit == 1
    assert divided(Batch(due=["order/o1"], limit=1), 100) == []
    assert divided(Batch(due=["order/o1"]), 100, known=True)[0][0].limit == 1
    assert divided(Batch(entries=[("shop", "a")]), 100) == []
    assert divided(Batch(unreadable=[unreadable(7)]), 100) == []

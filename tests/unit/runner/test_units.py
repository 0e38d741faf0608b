"""A batch that PostgreSQL refuses is taken apart until one event stands alone."""

from __future__ import annotations

from tests.support.deliveries import delivery, unreadable

from projectionist.runner.batch import Batch
from projectionist.runner.parts import merged, units


def test_a_batch_of_several_aggregates_falls_apart_by_aggregate() -> None:
    one, two, other = delivery(1), delivery(2), delivery(1, "order/o2")

    parts = units(Batch([two, other, one]))

    assert [part.deliveries for part in parts] == [[two, one], [other]]


def test_one_aggregate_falls_apart_by_event_in_the_order_of_versions() -> None:
    one, two = delivery(1), delivery(2)

    assert [part.deliveries for part in units(Batch([two, one]))] == [[one], [two]]


def test_what_is_due_stays_with_the_new_events_of_its_aggregate_until_it_stands_alone() -> None:
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

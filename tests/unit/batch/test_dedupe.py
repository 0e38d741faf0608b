"""What repeats inside one batch is settled before any statement could hide it."""

from __future__ import annotations

from tests.support.deliveries import delivery

from projectionist.runner.batch.dedupe import intake, without


def test_distinct_identities_are_claimed_in_the_order_of_source_and_id() -> None:
    given = [
        delivery(source=s, id=i, seq=n) for n, (s, i) in enumerate([("b", "1"), ("a", "2"), ("a", "10")], 1)
    ]

    taken = intake(given)

    assert [(d.source, d.id) for d in taken.fresh] == [("a", "10"), ("a", "2"), ("b", "1")]
    assert taken.again == []


def test_the_order_of_claims_is_that_of_bytes_not_of_any_language() -> None:
    taken = intake([delivery(id=name, seq=n) for n, name in enumerate(["ä", "z", "Z", "é", "a"], 1)])

    names = [d.id for d in taken.fresh]
    assert names == sorted(names, key=str.encode)


def test_an_identity_twice_in_a_batch_belongs_to_the_lower_stream_sequence() -> None:
    later, first = delivery(id="a", seq=9, data=b"other"), delivery(id="a", seq=4)

    taken = intake([later, first])

    assert taken.fresh == [first]
    assert taken.again == [later]


def test_one_stream_sequence_delivered_twice_in_a_batch_counts_once() -> None:
    taken = intake([delivery(id="a", seq=4), delivery(id="a", seq=4, delivered=2)])

    assert len(taken.fresh) == 1
    assert taken.again == []


def test_every_further_arrival_of_an_identity_is_kept_once_a_sequence() -> None:
    taken = intake([delivery(id="a", seq=n) for n in (7, 4, 7, 5, 4)] + [delivery(id="b", seq=6)])

    assert [d.seq for d in taken.fresh] == [4, 6]
    assert sorted(d.seq for d in taken.again) == [5, 7]


def test_an_empty_batch_stays_empty() -> None:
    assert intake([]).fresh == []


def test_what_is_put_aside_is_told_from_the_rest_however_often_it_came() -> None:
    given = [delivery(id=name, seq=seq) for name, seq in (("a", 4), ("b", 5), ("a", 4), ("c", 6))]
    rest, aside = without(given, {4, 6})
    assert [d.seq for d in rest] == [5]
    assert [d.seq for d in aside] == [4, 4, 6]

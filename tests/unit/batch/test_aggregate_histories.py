"""One aggregate through many batches: what plan and close make of it, with nothing but a dict for its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.states import AggregateState, Cause
from projectionist.projections.compiled.class_options import Sequencing
from projectionist.runner.batch.outcomes import REFETCH_S, FailedAt, record_outcome
from projectionist.runner.batch.planning import AggregatePlan, LockedPosition, may_move, plan_aggregate, reach
from projectionist.runner.batch.writes import BatchWrites, EventFailure, ParkedEvent
from projectionist.runner.decoding.delivery import Delivery

CLEAR, GAP, FAILED, WAITING, DRAINING = (
    AggregateState.CLEAR,
    AggregateState.GAP,
    AggregateState.FAILED,
    AggregateState.WAITING,
    AggregateState.DRAINING,
)


def event(version: int, *, parked: bool = False, **given: object) -> Delivery:
    """An event of the one aggregate; its version is its identity and its place in the stream."""
    made = Delivery(
        "shop", str(version), "t", 1, "order/7", version, b"{}", b"", "SHOP", version, "s", parked=parked
    )
    for name, value in given.items():
        setattr(made, name, value)
    return made


def at(
    version: int, head: AggregateState = CLEAR, *, parked: int = 0, finding: str | None = None
) -> LockedPosition:
    return LockedPosition(version, head, finding, parked, "order/7")


def versions(deliveries: Sequence[Delivery]) -> list[int | None]:
    return [delivery.version for delivery in deliveries]


def planned(
    position: LockedPosition,
    new: Sequence[int],
    parked: Sequence[int],
    sequence: Sequencing,
    *,
    due: bool = False,
    limit: int = 500,
    lacking: int | None = None,
) -> AggregatePlan:
    """The plan of a batch, with as much of the parked run as the transaction would read."""
    fresh = [event(version) for version in new]
    behind: list[int] = []
    if may_move(position, fresh, sequence, due=due):
        behind = [v for v in sorted(parked)[: reach(position, limit)] if lacking is None or v < lacking]
    read = [event(version, parked=True) for version in behind]
    return plan_aggregate(position, fresh, read, sequence, due=due, limit=limit, lacking=lacking)


@pytest.mark.parametrize(
    ("position", "new", "parked", "due", "limit", "tried", "held", "after"),
    [
        (at(3), [9, 5], [], False, 9, [5, 9], [], (9, CLEAR, 0)),
        (at(3), [2], [], False, 9, [], [], None),
        (at(3, FAILED, parked=1), [4, 9], [5], False, 9, [], [4, 9], (3, FAILED, 3)),
        (at(3, FAILED, parked=3), [], [4, 5, 9], True, 9, [4], [], (4, DRAINING, 2)),
        (at(4, DRAINING, parked=2), [7, 10], [5, 9], True, 9, [5, 7, 9, 10], [], (10, CLEAR, 0)),
        (at(4, DRAINING, parked=3), [6, 8], [5, 7, 9], True, 1, [5], [6, 8], (5, DRAINING, 4)),
        (at(4, DRAINING, parked=3), [6, 8], [5, 7, 9], True, 2, [5, 6, 7], [8], (7, DRAINING, 2)),
    ],
)
def test_monotonic_order_passes_over_holes_but_never_over_what_is_parked_and_unread(
    position: LockedPosition,
    new: list[int],
    parked: list[int],
    due: bool,
    limit: int,
    tried: list[int],
    held: list[int],
    after: tuple[int, AggregateState, int] | None,
) -> None:
    one = planned(position, new, parked, "monotonic", due=due, limit=limit)
    writes = BatchWrites()
    record_outcome(one, None, writes, grace=0.5)

    assert (versions(one.tried), versions(one.held)) == (tried, held)
    assert [(m.version, m.head, m.parked) for m in writes.moved] == ([] if after is None else [after])


def test_a_failed_head_is_tried_alone_and_the_rest_follows_at_once() -> None:
    one = planned(at(0, FAILED, parked=3), [4], [1, 2, 3], "contiguous", due=True)
    writes = BatchWrites()
    record_outcome(one, None, writes, grace=0.5)

    assert (versions(one.tried), versions(one.held)) == ([1], [4])
    assert [(m.version, m.head, m.parked, m.delay) for m in writes.moved] == [(1, DRAINING, 3, 0.0)]


def test_a_version_that_an_unread_parked_event_may_hold_is_not_tried() -> None:
    """Else the parked one would lie behind the position for ever."""
    one = planned(at(0, GAP, parked=9), [1, 4], [2, 3, 4], "contiguous", limit=2)

    assert versions(one.tried) == [1, 2, 3]
    assert versions(one.held) == [4]
    assert one.more


@pytest.mark.parametrize(
    ("new", "tried", "held", "reached"),
    [
        ([1, 2, 5, 6], [1, 2, 5, 6], [], 6),
        ([1, 2, 4, 5], [1, 2, 4, 5], [], 5),
        ([1, 2, 6], [1, 2], [6], 4),
        ([1, 5], [1], [5], 1),
        ([1, 2], [1, 2], [], 4),
    ],
    ids=["nothing came", "one came after all", "more is missing", "not reached", "nothing comes behind"],
)
def test_versions_accepted_as_missing_are_passed_in_the_middle_of_a_batch(
    new: list[int], tried: list[int], held: list[int], reached: int
) -> None:
    one, writes = planned_after_accepting(at(0), new, [])

    assert (versions(one.tried), versions(one.held)) == (tried, held)
    assert [moved.version for moved in writes.moved] == [reached]


def test_accepted_versions_are_passed_where_the_event_behind_them_fails() -> None:
    """Else the missing event, if it came after all, would wait there as the next one, and nobody would take it up."""
    one, writes = planned_after_accepting(at(0, GAP, parked=1), [1, 2], [5], broken=2)

    assert versions(one.tried) == [1, 2, 5]
    assert [(m.version, m.head, m.parked) for m in writes.moved] == [(4, WAITING, 1)]


@pytest.mark.parametrize(("read", "reached"), [([2], 2), ([2, 3], 3), ([2, 5], 5)])
def test_accepted_versions_are_not_passed_where_an_unread_event_may_hold_one(
    read: list[int], reached: int
) -> None:
    _, writes = planned_after_accepting(at(0, GAP, parked=9), [1], read, limit=len(read))

    assert [(m.version, m.head) for m in writes.moved] == [(reached, DRAINING)]


def planned_after_accepting(
    before: LockedPosition, new: list[int], behind: list[int], *, broken: int | None = None, limit: int = 9
) -> tuple[AggregatePlan, BatchWrites]:
    """The plan where versions 3 and 4 were once accepted as missing, and what is written of it."""
    one = plan_aggregate(
        before,
        [event(version) for version in new],
        [event(version, parked=True) for version in behind],
        "contiguous",
        due=False,
        limit=limit,
        accepted=lambda version: {2: 4, 3: 4}.get(version, version),
    )
    writes = BatchWrites()
    record_outcome(one, None if broken is None else FailedAt(broken, EventFailure()), writes, grace=1.0)
    return one, writes


@pytest.mark.parametrize(
    ("head", "new", "parked", "lacking", "tried", "after"),
    [
        (GAP, [1], [2, 3], 3, [1, 2], (2, DRAINING, 0.0)),
        (GAP, [1], [2, 3], 2, [1], (1, DRAINING, 0.0)),
        (GAP, [1], [2, 3, 5], 5, [1, 2, 3], (3, GAP, 0.5)),
        (DRAINING, [], [1, 2, 3], 2, [1], (1, DRAINING, 0.0)),
        (DRAINING, [], [1, 2, 3], 1, [], (0, DRAINING, REFETCH_S)),
        (FAILED, [], [1, 2, 3], 1, [], (0, FAILED, REFETCH_S)),
    ],
)
def test_a_drain_stops_at_a_reference_and_looks_again_at_once_only_if_it_got_on(
    head: AggregateState,
    new: list[int],
    parked: list[int],
    lacking: int,
    tried: list[int],
    after: tuple[int, AggregateState, float],
) -> None:
    before = at(0, head, parked=len(parked))
    one = planned(before, new, parked, "contiguous", due=not new, lacking=lacking)
    writes = BatchWrites()
    record_outcome(one, None, writes, grace=0.5)

    assert versions(one.tried) == tried
    assert [(m.version, m.head, m.delay) for m in writes.moved] == [after]


def referenced(writes: BatchWrites) -> dict[int | None, bool]:
    return {parked.delivery.version: parked.kept is None for parked in writes.parked}


def test_beyond_its_limit_an_aggregate_parks_references() -> None:
    writes = BatchWrites()
    record_outcome(
        planned(at(0, GAP, parked=2), [5, 6, 7], [3, 4], "contiguous"), None, writes, grace=0.5, keep=3
    )

    assert referenced(writes) == {5: False, 6: True, 7: True}
    assert writes.moved[0].parked == 5


def test_room_that_a_drain_made_is_used_again() -> None:
    writes = BatchWrites()
    record_outcome(
        planned(at(0, GAP, parked=2), [1, 5, 6], [2, 3], "contiguous"), None, writes, grace=0.5, keep=1
    )

    assert referenced(writes) == {5: False, 6: True}


def test_an_event_that_failed_keeps_its_bytes_and_its_followers_do_not_count_as_gaps() -> None:
    writes = BatchWrites()
    one = planned(at(0), [1, 2, 4], [], "contiguous")
    record_outcome(one, FailedAt(0, EventFailure(error="no", attempts=1)), writes, grace=0.5, keep=1)

    assert referenced(writes) == {1: False, 2: True, 4: True}
    assert [(p.delivery.version, p.cause) for p in writes.parked] == [
        (1, Cause.FAILED),
        (2, Cause.BLOCKED),
        (4, Cause.GAP),
    ]


def test_an_event_released_from_quarantine_is_never_a_payload_reference() -> None:
    waits = ParkedEvent(event(3, released=True), Cause.GAP, ordered=True, failed=EventFailure())
    one = planned(at(0, GAP, parked=9), [], [], "contiguous")
    one.held = [waits.delivery]
    writes = BatchWrites()
    record_outcome(one, None, writes, grace=0.5, keep=1)

    assert referenced(writes) == {3: False}


class Model:
    """One aggregate as tables would hold it, driven by the decisions alone."""

    def __init__(self, sequence: Sequencing, limit: int) -> None:
        self.sequence, self.limit = sequence, limit
        self.position, self.parked, self.applied = at(0), list[int](), list[int]()

    def arrive(self, new: Sequence[int], fails: Callable[[int], bool], *, due: bool = False) -> None:
        """One batch: versions that are new, and whether the head's time has come."""
        fresh = [version for version in new if version not in {*self.parked, *self.applied}]
        one = planned(self.position, fresh, self.parked, self.sequence, due=due, limit=self.limit)
        assert not one.clashes
        stop = next((i for i, d in enumerate(one.tried) if fails(d.version or 0)), None)
        writes = BatchWrites()
        record_outcome(
            one, None if stop is None else FailedAt(stop, EventFailure(delay=1.0)), writes, grace=0.5
        )
        self.applied += [d.version or 0 for d in one.tried[:stop]]
        self.parked += [p.delivery.version or 0 for p in writes.parked]
        self.parked = [version for version in self.parked if version not in self.applied]
        for moved in writes.moved:
            self.position = at(moved.version, moved.head, parked=moved.parked)
        self._check()

    def _check(self) -> None:
        """What the tables must agree on after every batch."""
        position = self.position
        assert position.parked == len(self.parked)
        assert (position.head is CLEAR) == (not self.parked)
        assert all(version > position.version for version in self.parked)
        if position.head is FAILED and self.sequence == "contiguous":
            assert min(self.parked) == position.version + 1
        if position.head is GAP:
            assert min(self.parked) > position.version + 1


def live(model: Model, order: list[int], sizes: list[int], poison: set[int]) -> None:
    """Deliver everything in batches of these sizes; poison is mended at the end."""
    waiting = list(order)
    for size in sizes:
        due = model.position.head in (FAILED, DRAINING)
        model.arrive(waiting[:size], lambda version: version in poison, due=due)
        waiting = waiting[size:]
    model.arrive(waiting, lambda version: version in poison)
    for _ in range(60):
        model.arrive([], lambda _: False, due=True)


@given(
    st.permutations(range(1, 13)),
    st.lists(st.integers(1, 4), min_size=12, max_size=12),
    st.sets(st.integers(1, 12), max_size=4),
    st.integers(1, 5),
)
def test_any_order_of_arrival_and_failure_applies_every_version_once_in_order(
    order: list[int], sizes: list[int], poison: set[int], limit: int
) -> None:
    model = Model("contiguous", limit)
    live(model, order, sizes, poison)
    assert model.applied == list(range(1, 13))
    assert model.position == at(12)


@given(
    st.lists(st.integers(1, 30), unique=True, min_size=1),
    st.lists(st.integers(1, 4), min_size=30, max_size=30),
    st.sets(st.integers(1, 30), max_size=5),
    st.integers(1, 5),
)
def test_monotonic_order_never_goes_back_and_leaves_nothing_parked(
    order: list[int], sizes: list[int], poison: set[int], limit: int
) -> None:
    model = Model("monotonic", limit)
    live(model, order, sizes, poison)
    assert model.applied == sorted(model.applied)
    assert model.position == at(model.applied[-1])
    assert max(order) == model.applied[-1]

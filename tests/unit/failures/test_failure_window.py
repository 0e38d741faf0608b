"""When failures are too many: what counts, over which time, and when a probe says that it is over."""

from __future__ import annotations

from tests.support.deliveries import delivery, parked

from projectionist.core.settings.settings import BreakerLimits
from projectionist.core.states import Cause
from projectionist.runner.batch.types import BatchResult
from projectionist.runner.batch.writes import BatchWrites, EventFailure, ParkedEvent
from projectionist.runner.failures.failure_window import LEAST, PROBED, BatchFailures, Probe, Window, seen

POLICY = BreakerLimits(max_failing_keys=100, failure_ratio=0.05, window_s=60)


def batch(at: float, failed: int, tried: int, *, name: str = "k") -> BatchFailures:
    """A batch in which so many keys failed, of so many."""
    return BatchFailures(at, frozenset(f"{name}{n}" for n in range(failed)), tried)


def test_failures_are_counted_by_key_and_gaps_not_at_all() -> None:
    writes = BatchWrites()
    writes.parked = [
        ParkedEvent(delivery(1, "order/a"), Cause.FAILED, True, EventFailure()),
        ParkedEvent(delivery(2, "order/a"), Cause.BLOCKED, True, EventFailure()),
        ParkedEvent(delivery(5, "order/b"), Cause.GAP, True, EventFailure()),
        ParkedEvent(delivery(1, None, id="alone"), Cause.FAILED, False, EventFailure()),
    ]
    writes.failed_again = [(parked(1, "order/a"), EventFailure()), (parked(1, "order/c"), EventFailure())]

    one = seen([BatchResult(writes, None, 7), BatchResult(BatchWrites(), None, 3)], at=1.0)

    assert one == BatchFailures(1.0, frozenset({"order/a", "order/c", "alone"}), 10)


def test_a_hundred_keys_trip_it_however_small_their_share_is() -> None:
    window = Window(POLICY)

    assert not window.add(batch(0, 0, 1_000_000))
    assert not window.add(batch(1, 99, 1000))
    assert window.add(batch(2, 1, 1000, name="one more ")) == "100 keys failed within 60 s"


def test_the_same_key_again_is_no_more_than_one() -> None:
    window = Window(POLICY)

    assert not any(window.add(batch(at, 19, 20)) for at in range(50))


def test_a_share_says_nothing_before_enough_keys_have_failed() -> None:
    window = Window(POLICY)

    assert not window.add(batch(0, LEAST - 1, LEAST - 1))
    assert window.add(batch(1, 1, 1, name="one more ")) == f"{LEAST} keys failed within 60 s"


def test_a_share_below_the_limit_is_borne() -> None:
    window = Window(POLICY)

    assert not window.add(batch(0, 30, 1000))


def test_what_is_older_than_the_window_is_forgotten() -> None:
    window = Window(POLICY)
    window.add(batch(0, 90, 10_000))

    assert not window.add(batch(61, 15, 10_000, name="later "))


def test_after_a_pause_it_begins_anew() -> None:
    window = Window(POLICY)
    window.add(batch(0, 99, 10_000))
    window.clear()

    assert not window.add(batch(1, 15, 10_000, name="later "))


def test_a_probe_goes_through_when_enough_were_tried_and_at_most_one_failed() -> None:
    probe = Probe(POLICY)

    assert probe.add(batch(0, 1, PROBED - 1)) is None
    assert probe.add(batch(1, 0, 1)) is True


def test_a_probe_fails_as_soon_as_too_many_do() -> None:
    assert Probe(POLICY).add(batch(0, 2, 2)) is False

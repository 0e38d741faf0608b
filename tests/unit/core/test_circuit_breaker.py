"""The circuit as a value: what opens it, who may probe, what a result changes."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.circuit_breaker import Admission, BreakerPolicy, Circuit, State, admit, record

POLICY = BreakerPolicy(failures=3, open_s=10, maximum_s=35, probe_s=60)


def failed(circuit: Circuit, now: float, times: int = 1) -> Circuit:
    for _ in range(times):
        circuit = record(circuit, POLICY, now, epoch=circuit.epoch, ok=False)
    return circuit


def test_a_closed_circuit_lets_all_through_and_forgets_failures_at_a_success() -> None:
    circuit = failed(Circuit(), 0, 2)
    assert admit(circuit, POLICY, 0) == (Admission.ALL, circuit)
    assert record(circuit, POLICY, 0, epoch=0, ok=True) == Circuit()


def test_failures_in_a_row_open_it_and_nothing_is_tried_until_the_pause_is_over() -> None:
    circuit = failed(Circuit(), 100, 3)
    assert circuit.state is State.OPEN
    assert admit(circuit, POLICY, 109.9) == (Admission.NONE, circuit)


def test_after_the_pause_one_may_probe_and_nobody_else() -> None:
    admission, probing = admit(failed(Circuit(), 100, 3), POLICY, 110)
    assert (admission, probing.state) == (Admission.ONE, State.HALF_OPEN)
    assert admit(probing, POLICY, 111)[0] is Admission.NONE


def test_a_probe_that_succeeds_closes_it() -> None:
    _, probing = admit(failed(Circuit(), 100, 3), POLICY, 110)
    closed = record(probing, POLICY, 111, epoch=probing.epoch, ok=True)
    assert (closed.state, closed.failures, closed.openings) == (State.CLOSED, 0, 0)


def test_each_probe_that_fails_doubles_the_pause_up_to_the_maximum() -> None:
    circuit, now, pauses = failed(Circuit(), 0, 3), 0.0, []
    for _ in range(4):
        pauses.append(circuit.until - now)
        now = circuit.until
        _, probing = admit(circuit, POLICY, now)
        circuit = record(probing, POLICY, now, epoch=probing.epoch, ok=False)
    assert pauses == [10, 20, 35, 35]


def test_a_pause_longer_than_the_longest_was_written_before_the_clock_went_back() -> None:
    circuit = failed(Circuit(), 3600, 3)
    assert admit(circuit, POLICY, 0)[0] is Admission.ONE
    assert admit(circuit, POLICY, 3605)[0] is Admission.NONE


def test_a_pause_lasts_as_long_as_it_was_meant_to_for_those_with_shorter_ones_too() -> None:
    circuit, brief = failed(Circuit(), 100, 3), BreakerPolicy(open_s=1, maximum_s=1, probe_s=1)
    assert admit(circuit, brief, 101)[0] is Admission.NONE
    assert admit(circuit, brief, 110)[0] is Admission.ONE
    assert admit(circuit, brief, 0)[0] is Admission.ONE


def test_a_probe_nobody_reports_about_is_given_up() -> None:
    _, probing = admit(failed(Circuit(), 100, 3), POLICY, 110)
    admission, again = admit(probing, POLICY, 170)
    assert (admission, again.epoch) == (Admission.ONE, probing.epoch + 1)


def test_results_from_before_the_pause_change_nothing() -> None:
    opened = failed(Circuit(), 100, 3)
    _, probing = admit(opened, POLICY, 110)
    for circuit in (opened, probing):
        for ok in (True, False):
            assert record(circuit, POLICY, 111, epoch=0, ok=ok) == circuit


@given(st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=60))
def test_whatever_happens_it_is_never_stuck(steps: list[tuple[float, bool]]) -> None:
    circuit, now = Circuit(), 0.0
    for passed, ok in steps:
        now += passed
        admission, circuit = admit(circuit, POLICY, now)
        if admission is not Admission.NONE:
            circuit = record(circuit, POLICY, now, epoch=circuit.epoch, ok=ok)
    admission, circuit = admit(circuit, POLICY, now + POLICY.maximum_s + POLICY.probe_s)
    assert admission is not Admission.NONE
    assert record(circuit, POLICY, now, epoch=circuit.epoch, ok=True).state is State.CLOSED


def test_it_survives_being_stored_and_read_back() -> None:
    circuit = failed(Circuit(), 100, 3)
    assert msgspec.json.decode(msgspec.json.encode(circuit), type=Circuit) == circuit


def test_a_pause_never_overflows() -> None:
    circuit = Circuit(state=State.HALF_OPEN, epoch=9, openings=5000)
    assert record(circuit, POLICY, 0, epoch=9, ok=False).until == POLICY.maximum_s

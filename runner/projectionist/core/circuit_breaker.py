"""A circuit per provider and destination as a value: who may be tried, and what a result makes of it. Pure.

The circuit is shared through a row, so every function takes the state and the time and returns a new state.
Times are seconds of whatever one clock the caller uses throughout (the database's).
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from projectionist.core.retry_policy import Seconds


class State(enum.Enum):
    """CLOSED: all go through. OPEN: nobody, until a time. HALF_OPEN: one probe is out, its result decides."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Admission(enum.Enum):
    """How many may be tried now."""

    ALL = "all"
    ONE = "one"
    NONE = "none"


class BreakerPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After `failures` in a row nothing is tried for `open_s`, then one; each failed probe doubles the pause
    up to `maximum_s`. A probe that nobody reports about is given up after `probe_s`."""

    failures: Annotated[int, msgspec.Meta(ge=1)] = 5
    open_s: Seconds = 10.0
    maximum_s: Seconds = 300.0
    probe_s: Seconds = 60.0

    def __post_init__(self) -> None:
        if self.maximum_s < self.open_s:
            raise ValueError(f"maximum_s ({self.maximum_s:g}) is below open_s ({self.open_s:g})")


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """What a circuit remembers. `epoch` rises at every change of state; a result is of the epoch it was
    admitted in. `until`: end of the pause when OPEN, end of the wait for the probe when HALF_OPEN. `pause_s`: how
    long either was meant to last, by the policy of whoever wrote it."""

    state: State = State.CLOSED
    epoch: int = 0
    failures: int = 0
    openings: int = 0
    until: float = 0.0
    pause_s: float = 0.0


def admit(circuit: Circuit, policy: BreakerPolicy, now: float) -> tuple[Admission, Circuit]:
    """Return how many may be tried at `now`, and the circuit to store before trying.

    ONE is given to a single caller: the circuit it returns is HALF_OPEN, and only who stores it may probe.
    """
    if circuit.state is State.CLOSED:
        return Admission.ALL, circuit
    # A pause of which more is left than it was meant to last was written by a clock that has gone back since.
    if now < circuit.until <= now + circuit.pause_s:
        return Admission.NONE, circuit
    probing = msgspec.structs.replace(
        circuit,
        state=State.HALF_OPEN,
        epoch=circuit.epoch + 1,
        until=now + policy.probe_s,
        pause_s=policy.probe_s,
    )
    return Admission.ONE, probing


def record(circuit: Circuit, policy: BreakerPolicy, now: float, *, epoch: int, ok: bool) -> Circuit:
    """Return the circuit after one result of a try admitted in `epoch`. Results of older epochs change nothing: what
    was started before the pause says nothing about now."""
    if epoch != circuit.epoch or circuit.state is State.OPEN:
        return circuit
    if ok:
        return _closed(circuit)
    failures = circuit.failures + 1
    if circuit.state is State.CLOSED and failures < policy.failures:
        return msgspec.structs.replace(circuit, failures=failures)
    return _opened(circuit, policy, now, failures)


def _closed(circuit: Circuit) -> Circuit:
    if circuit.state is State.CLOSED:
        return msgspec.structs.replace(circuit, failures=0) if circuit.failures else circuit
    return Circuit(epoch=circuit.epoch + 1)


def _opened(circuit: Circuit, policy: BreakerPolicy, now: float, failures: int) -> Circuit:
    pause = policy.maximum_s
    if circuit.openings < 32:
        pause = min(policy.open_s * 2**circuit.openings, policy.maximum_s)
    return Circuit(
        state=State.OPEN,
        epoch=circuit.epoch + 1,
        failures=failures,
        openings=circuit.openings + 1,
        until=now + pause,
        pause_s=pause,
    )

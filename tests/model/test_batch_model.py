"""M1: the batch holds in every state within the bounds, and breaks as foretold where a rule is taken out."""

from __future__ import annotations

import pytest
from tests.model.batch_model import Batches
from tests.model.batch_world import RULES, Event, Scenario
from tests.model.explorer import LIVE, explore, explore_all
from tests.support.proof import Figure

A1, A2, A3, A4 = (Event(0, version) for version in range(1, 5))
B1, B2, B3 = (Event(1, version) for version in range(1, 4))
BAD_A2 = Event(0, 2, poison=True)

SCENARIOS = {
    "the same events in another order": Scenario(
        events=(A1, B1, A2), batches=((0, (0, 1)), (1, (1, 0)), (1, (2,))), crashes=1, unknown=1
    ),
    "versions that overtake each other": Scenario(
        events=(A1, B1, A2, B2, A3, B3), batches=((0, (0, 1)), (0, (2, 3)), (1, (5, 4))), crashes=1
    ),
    "batches of one process with one event": Scenario(
        events=(A1, A2), batches=((0, (0,)), (0, (0, 1)), (1, (1,))), crashes=1, unknown=2
    ),
    "three processes": Scenario(
        events=(A1, A2, B1), batches=((0, (0, 2)), (1, (1, 0)), (2, (2, 1))), crashes=1
    ),
    "a process takes over": Scenario(
        events=(A1, B1), batches=((0, (0,)), (0, (1,)), (1, (0, 1)), (1, (1,))), crashes=1, taker=1
    ),
    "a person steps over a poison": Scenario(
        events=(A1, BAD_A2, A3, A4),
        batches=((0, (0, 1)), (1, (2,)), (1, (3,)), (0, ())),
        crashes=1,
        person=True,
        drain=1,
    ),
    "what was purged comes again": Scenario(
        events=(A1, A2), batches=((0, (0, 1)), (1, (0,)), (1, (1, 0))), crashes=1, purge=True
    ),
}
MET = "enters claims known places locks judges again commits unheard refused acks dies takes superseded skips purges"

I2 = "I2 the shared row holds what was applied"
I3 = "I3 inbox, position and parked events agree"
I4 = "I4 versions are applied from 1 on, in order, once"
I5 = "I5 what is next is not left parked"
I12 = "I12 nothing is committed after a takeover"
I17 = "I17 what is acked is committed"
TWO_ORDERS = Scenario(events=(A1, B1), batches=((0, (0,)), (1, (1,))))
TWO_VERSIONS = Scenario(events=(A1, A2), batches=((0, (0,)), (1, (1,))))
OVERTAKING = Scenario(events=(A1, B1, A2, B2, A3, B3), batches=((0, (0, 1)), (0, (2, 3)), (1, (5, 4))))

REVERTED = {
    "one transaction": (Scenario(events=(A1,), batches=((0, (0,)),), crashes=1), {I3}),
    "placeholders": (TWO_VERSIONS, {I3, I4}),
    "claim order": (Scenario(events=(A1, B1), batches=((0, (0, 1)), (1, (1, 0)))), {LIVE}),
    "lock order": (OVERTAKING, {LIVE}),
    "read after lock": (Scenario(events=(A1, A2), batches=((0, (0,)), (1, (0,)), (1, (1,)))), {I4}),
    "parked after lock": (OVERTAKING, {I5}),
    "counted insert": (TWO_ORDERS, {I2}),
    "turn": (Scenario(events=(A1,), batches=((0, (0,)), (0, (0,)))), {LIVE}),
    "turn over": (Scenario(events=(A1,), batches=((0, (0,)), (0, (0,))), unknown=1), {LIVE}),
    "barrier": (Scenario(events=(A1,), batches=((0, (0,)), (1, (0,))), taker=1), {I12}),
    "ack last": (Scenario(events=(A1,), batches=((0, (0,)),)), {I17}),
    "unknown commit": (Scenario(events=(A1,), batches=((0, (0,)),), unknown=1), {I17}),
    "act locks": (
        Scenario(events=(A1, BAD_A2, A3), batches=((0, (0, 1)), (1, (2,)), (0, ())), person=True),
        {I3, I5},
    ),
}


def test_nothing_breaks_in_any_order_of_statements_crashes_and_answers(record_property: Figure) -> None:
    found = explore_all({name: Batches(scenario).model() for name, scenario in SCENARIOS.items()})

    assert found.broken == {}
    record_property("states of the model", found.states)
    record_property("steps of the model", found.met.total())
    assert set(MET.split()) <= found.met.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_of_the_batch_exactly_what_it_guards_breaks(rule: str) -> None:
    scenario, broken = REVERTED[rule]

    assert explore(Batches(scenario).model()).broken == {}
    assert explore(Batches(scenario, without=rule).model()).broken.keys() == broken


def test_each_invariant_of_the_batch_has_a_rule_that_it_alone_depends_on() -> None:
    alone = {name for _, broken in REVERTED.values() if len(broken) == 1 for name in broken}

    assert alone == {LIVE, *Batches(TWO_ORDERS).model().invariants}

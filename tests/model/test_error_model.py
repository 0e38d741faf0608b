"""M2: whatever errors a server or an event brings about, the rest drains, and nothing good waits for a person."""

from __future__ import annotations

import pytest
from tests.model.error_model import Errors
from tests.model.error_world import RULES, Event
from tests.model.explorer import LIVE, explore, explore_all
from tests.support.proof import Figure

from projectionist.core.postgres.error_class import ErrorClass

A1, A2, B1, B2, C1 = Event(0), Event(0, 2), Event(1), Event(1, 2), Event(2)
BAD = {
    f"{says} through {ways} of 3 ways": Event(0, 1, says, ways) for says in ErrorClass for ways in (1, 2, 3)
}
SCENARIOS = {
    **{f"a head of {name}": (bad, A2, B1) for name, bad in BAD.items()},
    **{f"a follower of {name}": (A1, bad._replace(version=2), B1) for name, bad in BAD.items()},
    "nothing is bad but the server": (A1, A2, B1, B2),
    "two are bad": (Event(0, 1, ErrorClass.INFRASTRUCTURE), Event(1, 1, ErrorClass.DATA, 2), C1),
}
MET = "delivers due reads again splits blames shelves leaves raises applies settles ill recovers waits"

I1 = "I1 what is acked is on record"
I5 = "I5 only what is bad waits for a person"
I13 = "I13 a fault of the server puts aside one event in a patience"
GOOD = (A1, B1)
ENDLESS = (Event(0, 1, ErrorClass.INFRASTRUCTURE), B1)
UNFAILABLE = (Event(0, 1, ErrorClass.DATA, 2), B1)
UNWRITABLE = (Event(0, 1, ErrorClass.INFRASTRUCTURE, 3), B1)
REVERTED = {
    "divided": (ENDLESS, LIVE),
    "blamed": (ENDLESS, LIVE),
    "patience": (GOOD, I13),
    "one at a time": (GOOD, I13),
    "tried again": (GOOD, I5),
    "bytes": (UNFAILABLE, LIVE),
    "left": (UNWRITABLE, LIVE),
    "left unacked": (UNWRITABLE, I1),
}


def test_no_error_at_any_statement_stops_what_is_good(record_property: Figure) -> None:
    found = explore_all({name: Errors(events).model() for name, events in SCENARIOS.items()})

    assert found.broken == {}
    record_property("states of the model", found.states)
    record_property("steps of the model", found.met.total())
    assert set(MET.split()) <= found.met.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_about_errors_exactly_what_it_guards_breaks(rule: str) -> None:
    events, broken = REVERTED[rule]

    assert explore(Errors(events).model()).broken == {}
    assert list(explore(Errors(events, without=rule).model()).broken) == [broken]


def test_each_invariant_about_errors_has_a_rule_that_it_alone_depends_on() -> None:
    assert {broken for _, broken in REVERTED.values()} == {LIVE, *Errors(GOOD).model().invariants}

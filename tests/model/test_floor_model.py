"""M3: no order of looks, writes, foreign acks, moves, restores and purges makes a floor pass what is not settled."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.explorer import LIVE, explore, explore_all
from tests.model.floor_model import Floors
from tests.model.floor_world import RULES, Faults
from tests.support.proof import Figure

ALONE: dict[str, Any] = {"processes": 1}
ONE_MESSAGE: dict[str, Any] = {"messages": 1}
SCENARIOS: dict[str, dict[str, Any]] = {
    "two write floors": {"may": Faults()},
    "another client acks": {"may": Faults(thefts=1), **ALONE},
    "another client acks beside two": {"may": Faults(thefts=1), **ONE_MESSAGE},
    "another client moves the durable": {"may": Faults(jumps=1), **ALONE},
    "another client moves the durable of two": {"may": Faults(jumps=1), **ONE_MESSAGE},
    "the durable is made anew": {"may": Faults(remade=1), **ALONE},
    "the database is restored": {"may": Faults(restores=1), **ALONE},
    "messages are purged": {"may": Faults(purges=1), **ALONE},
    "a process dies": {"may": Faults(deaths=1), **ALONE},
    "a process dies and another client acks": {"may": Faults(deaths=1, thefts=1), **ALONE, **ONE_MESSAGE},
}
MET = (
    "begins asks joins moves again takes settles acks looks hears records doubts rejoins accuses"
    " dies steals jumps remade purges keeps restores"
)

I1 = "I1 what lies below the floor is settled"
I13 = "I13 no healthy database is taken for an older one"
I15 = "I15 of another client is told only where there was one"
QUIET: dict[str, Any] = {"may": Faults(), **ALONE, **ONE_MESSAGE}
ROBBED: dict[str, Any] = {"may": Faults(thefts=1), **ALONE, **ONE_MESSAGE}
REVERTED: dict[str, tuple[dict[str, Any], str]] = {
    "rises only": ({"may": Faults()}, I13),
    "proven": (ROBBED, I1),
    "read again": (ROBBED, LIVE),
    "ack last": (QUIET, I15),
    "doubt after a start": ({"may": Faults(restores=1), **ALONE, **ONE_MESSAGE}, I15),
    "told of what is gone": ({"may": Faults(purges=1), **ALONE, **ONE_MESSAGE}, LIVE),
}


def test_no_floor_passes_what_is_not_settled_whoever_acks_moves_and_restores(
    record_property: Figure,
) -> None:
    found = explore_all({name: Floors(**scenario).model() for name, scenario in SCENARIOS.items()})

    assert found.broken == {}
    record_property("states of the model", found.states)
    record_property("steps of the model", found.met.total())
    assert set(MET.split()) <= found.met.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_about_floors_exactly_what_it_guards_breaks(rule: str) -> None:
    scenario, broken = REVERTED[rule]

    assert explore(Floors(**scenario).model()).broken == {}
    assert list(explore(Floors(**scenario, without=rule).model()).broken) == [broken]


def test_each_invariant_about_floors_has_a_rule_that_it_alone_depends_on() -> None:
    assert {broken for _, broken in REVERTED.values()} == {LIVE, *Floors(Faults()).model().invariants}

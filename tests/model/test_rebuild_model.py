"""M4: a build beside live batches ends in what live has applied, whoever dies, takes over or decides meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.explorer import LIVE, explore, explore_all
from tests.model.rebuild_model import Rebuilds
from tests.model.rebuild_world import RULES, Event
from tests.support.proof import Figure

A1, A2, A3, B1, B2 = Event(0), Event(0, 2), Event(0, 3), Event(1), Event(1, 2)
SCENARIOS: dict[str, dict[str, Any]] = {
    "batches beside each other": {"events": (A1, A2, B1, B2), "beside": 2},
    "the builder dies": {"events": (A1, A2, A3), "deaths": 2},
    "two build": {"events": (A1, A2), "builders": 2, "deaths": 1},
    "a person steps over an event": {"events": (A1, A2, B1), "skips": True, "deaths": 1},
}
MET = "opens commits skips builds resumes loses folds flips plans catches unmarks again swaps dies"

I3 = "I3 the shadow's rows are of where it stands"
I11 = "I11 what readers see is what live has applied"
I12 = "I12 nothing is written for a build by who has lost it"
I13 = "I13 no batch waits for the broker"
I20 = "I20 a shadow never passes live"
I21 = "I21 what was stepped over is stepped over again"
PLAIN: dict[str, Any] = {"events": (A1, A2)}
DYING: dict[str, Any] = {"events": (A1, A2), "deaths": 1}
REVERTED: dict[str, tuple[dict[str, Any], str]] = {
    "marks": (PLAIN, I11),
    "flip alone": (PLAIN, I11),
    "marks last": (DYING, I11),
    "positions with rows": (PLAIN, I3),
    "only what live applied": (PLAIN, I20),
    "decisions": ({"events": (A1, A2), "skips": True}, I21),
    "epoch held": ({"events": (A1,), "builders": 2}, I12),
    "resumed": (DYING, LIVE),
    "swap alone": (PLAIN, I11),
    "tail at hand": (PLAIN, I13),
}


def test_a_build_ends_in_what_live_has_applied_in_any_order_of_steps(record_property: Figure) -> None:
    found = explore_all({name: Rebuilds(**scenario).model() for name, scenario in SCENARIOS.items()})

    assert found.broken == {}
    record_property("states of the model", found.states)
    record_property("steps of the model", found.met.total())
    assert set(MET.split()) <= found.met.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_of_the_rebuild_exactly_what_it_guards_breaks(rule: str) -> None:
    scenario, broken = REVERTED[rule]

    assert explore(Rebuilds(**scenario).model()).broken == {}
    assert list(explore(Rebuilds(**scenario, without=rule).model()).broken) == [broken]


def test_each_invariant_of_the_rebuild_has_a_rule_that_it_alone_depends_on() -> None:
    assert {broken for _, broken in REVERTED.values()} == {LIVE, *Rebuilds((A1,)).model().invariants}

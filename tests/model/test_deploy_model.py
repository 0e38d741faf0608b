"""M6: whatever order a deploy takes, code goes forward, and what has not changed goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.deploy_model import Deploys
from tests.model.deploy_world import RULES, Release
from tests.model.explorer import LIVE, explore, explore_all
from tests.support.proof import Figure

NEWER, RAISED = Release(code=1), Release(code=1, revision=2)
SCENARIOS: dict[str, dict[str, Any]] = {
    "new code beside old": {"newer": NEWER},
    "new code beside old, twice": {"newer": NEWER, "versions": (0, 1, 1), "work": 1},
    "new code after old, twice": {"newer": NEWER, "versions": (0, 0, 1), "work": 1},
    "a higher revision beside old": {"newer": RAISED},
    "a higher revision beside old, twice": {"newer": RAISED, "versions": (0, 1, 1), "work": 1},
}
MET = "joins adopts refused builds built swaps opens commits superseded gives-up"

I11 = "I11 a generation is written by the revision alone that has built it"
I12 = "I12 nothing is committed by code that was replaced"
FORWARD = "I12 code that was replaced comes back on purpose alone"
REVERTED: dict[str, tuple[dict[str, Any], str]] = {
    "code compared": ({"newer": NEWER}, I12),
    "barrier": ({"newer": NEWER}, I12),
    "older code refused": ({"newer": NEWER}, FORWARD),
    "each alone": ({"newer": NEWER}, LIVE),
    "built first": ({"newer": RAISED}, I11),
}


def test_no_order_of_a_deploy_brings_old_code_back_or_stops_what_has_not_changed(
    record_property: Figure,
) -> None:
    found = explore_all({name: Deploys(**scenario).model() for name, scenario in SCENARIOS.items()})

    assert found.broken == {}
    record_property("states of the model", found.states)
    record_property("steps of the model", found.met.total())
    assert set(MET.split()) <= found.met.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_of_deploys_exactly_what_it_guards_breaks(rule: str) -> None:
    scenario, broken = REVERTED[rule]

    assert explore(Deploys(**scenario).model()).broken == {}
    assert list(explore(Deploys(**scenario, without=rule).model()).broken) == [broken]


def test_each_invariant_of_deploys_has_a_rule_that_it_alone_depends_on() -> None:
    assert {broken for _, broken in REVERTED.values()} == {LIVE, *Deploys(NEWER).model().invariants}

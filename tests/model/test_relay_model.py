"""M5: the relay holds in every state within the bounds, and breaks as foretold where a rule is taken out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.explorer import LIVE, explore, explore_all
from tests.model.relay_model import FORGETS, REMEMBERS, RULES, STREAM, Relays
from tests.model.relay_world import Faults
from tests.support.proof import Figure

SCENARIOS: dict[str, dict[str, Any]] = {
    "relays die and oversleep": {"profile": REMEMBERS, "may": Faults(deaths=1, sleeps=1)},
    "answers are lost, and it is refused": {"profile": REMEMBERS, "may": Faults(silences=1, refusals=1)},
    "nobody is there": {"profile": REMEMBERS, "may": Faults(silences=1, absences=1)},
    "a provider without memory": {"profile": FORGETS, "may": Faults(deaths=1, silences=1, sleeps=1)},
    "PostgreSQL fails over": {"profile": FORGETS, "may": Faults(failovers=1)},
    "PostgreSQL fails over, and keys are known": {"profile": REMEMBERS, "may": Faults(failovers=1)},
    "PostgreSQL's clock goes back": {"profile": REMEMBERS, "may": Faults(setbacks=1, silences=1)},
    "a stream loses its end": {
        "profile": STREAM,
        "may": Faults(silences=1, losses=1, others=1),
        "relays": 1,
    },
    "two intents of a lane": {"profile": REMEMBERS, "may": Faults(), "intents": 2},
    "two intents of a lane, and no memory": {"profile": FORGETS, "may": Faults(deaths=1), "intents": 2},
}
MET = (
    "leases starts misses sends late unheard vanished refused away judges asks looks settles dies replicates"
    " fails-over clock-back rights loses others ticks"
)

I7 = "I7 each intent is executed at most once"
I9 = "I9 a lane is executed in its order"
I15 = "I15 what is called sent was executed"
REVERTED: dict[str, tuple[dict[str, Any], str]] = {
    "start first": ({"profile": FORGETS, "may": Faults(deaths=1)}, I7),
    "lease checked": ({"profile": REMEMBERS, "may": Faults(sleeps=1)}, I7),
    "memory kept to": ({"profile": REMEMBERS, "may": Faults(deaths=1), "relays": 1}, I7),
    "silence is unknown": ({"profile": FORGETS, "may": Faults(deaths=1), "relays": 1}, I7),
    "own attempt": ({"profile": REMEMBERS, "may": Faults(sleeps=1)}, I7),
    "doubt after failover": ({"profile": FORGETS, "may": Faults(failovers=1), "relays": 1}, I7),
    "clock put right": ({"profile": REMEMBERS, "may": Faults(setbacks=1, silences=1)}, I7),
    "head of the lane": ({"profile": REMEMBERS, "may": Faults(), "intents": 2}, I9),
    "leases end": ({"profile": FORGETS, "may": Faults(deaths=1), "relays": 1}, LIVE),
    "hint compared": (
        {"profile": STREAM, "may": Faults(silences=1, losses=1, others=1), "relays": 1},
        I7,
    ),
    "no reply is none": ({"profile": FORGETS, "may": Faults(silences=1), "relays": 1}, I15),
}


def test_no_order_of_deaths_answers_and_ticks_executes_twice_or_out_of_order(record_property: Figure) -> None:
    found = explore_all({name: Relays(**scenario).model() for name, scenario in SCENARIOS.items()})

    assert found.broken == {}
    record_property("states of the model", found.states)
    record_property("steps of the model", found.met.total())
    assert set(MET.split()) <= found.met.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_of_the_relay_exactly_what_it_guards_breaks(rule: str) -> None:
    scenario, broken = REVERTED[rule]

    assert explore(Relays(**scenario).model()).broken == {}
    assert list(explore(Relays(**scenario, without=rule).model()).broken) == [broken]


def test_each_invariant_of_the_relay_has_a_rule_that_it_alone_depends_on() -> None:
    assert {broken for _, broken in REVERTED.values()} == {
        LIVE,
        *Relays(FORGETS, Faults()).model().invariants,
    }

"""Who acts and why is written down: it has to be there, and be text that can be."""

from __future__ import annotations

import pytest

from projectionist.runner.verbs import Act, NotThere


@pytest.mark.parametrize("bad", ["", "  ", "a\0b", "caf\udce9"])
def test_an_act_names_an_actor_and_a_reason_that_can_be_stored(bad: str) -> None:
    for actor, reason in ((bad, "why"), ("ann", bad)):
        with pytest.raises(NotThere, match="actor"):
            Act(actor, reason)


def test_a_reason_may_have_several_lines() -> None:
    assert Act("ann", "first\nsecond é").reason == "first\nsecond é"

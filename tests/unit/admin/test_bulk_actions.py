"""How verbs on many tell what became of each."""

from __future__ import annotations

import pytest

from projectionist.core.operator import NotThere
from projectionist.runner.admin.bulk_actions import named, paced


@pytest.mark.asyncio
async def test_of_two_events_of_one_id_and_two_sources_each_is_told() -> None:
    chosen = [("shop", "7"), ("mall", "7"), ("shop", "8")]
    name = named(chosen, lambda one: one[1], lambda one: f"{one[1]} of {one[0]}")

    async def do(one: tuple[str, str]) -> None:
        if one[0] == "mall":
            raise NotThere("it is gone")

    done = await paced(chosen, do, name=name, rate=1e6)

    assert done.changed == ["7 of shop", "8"]
    assert list(done.unchanged) == ["7 of mall"]

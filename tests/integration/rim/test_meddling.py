"""Whatever others do to stream, durable, sessions and database: everything drains without help, nothing is lost."""

from __future__ import annotations

import pytest
from tests.support.lab import Lab
from tests.support.meddling import ACTS, Act
from tests.support.rim import Rim, rim

pytestmark = [pytest.mark.asyncio, pytest.mark.deadline(240)]


async def endure(one: Rim, *acts: Act, processes: int = 1) -> None:
    """Have the consumers work while these acts happen; in the end all is as if they had not."""
    await one.narrow()
    async with one.running(processes):
        await one.good()
        await one.drained()
        for act in acts:
            await one.good()
            await act(one)
        await one.good()
        await one.drained()


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_what_somebody_does_is_healed_without_help(lab: Lab, act: Act) -> None:
    async with rim(lab, "Orders", "Journal") as one:
        await endure(one, act)

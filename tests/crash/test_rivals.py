"""One hardship of `make rivals` in little: that its judge sees what is wrong, and finds nothing where nothing is."""

from __future__ import annotations

import pytest
from tests.support.rivals.contenders import FASTSTREAM, OWN, Contender
from tests.support.rivals.load import Hardship
from tests.support.rivals.trial import run_trial
from tests.support.servers import Servers
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.asyncio

LATE = Hardship(
    name="late", says="payments come before notes, events twice; kills", late=0.3, again=0.3, kills=2
)
"""Under which rows differ where versions are not looked at."""
SOON_S = 3.0


@pytest.mark.parametrize(
    ("contender", "patience_s"), [(OWN, HANG_S), (FASTSTREAM, SOON_S)], ids=["own", "a rival"]
)
async def test_what_comes_out_of_order_and_twice_under_kills_is_judged(
    servers: Servers, contender: Contender, patience_s: float
) -> None:
    found = await run_trial(servers, contender, LATE, seed="1", number=40, patience_s=patience_s)

    assert (found.killed, found.orders) == (2, 40)
    assert found.found.clean is (contender is OWN), found

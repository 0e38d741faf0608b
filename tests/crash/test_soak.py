"""The soak in little: every fault once under load, and faults planted to show that its ledger has teeth.

`make soak MINUTES=60` goes on with it, round after round. SOAK_SEED=… lives through another round, or one again.
"""

from __future__ import annotations

import os

import pytest
from tests.crash.test_sweep import commit
from tests.support.proof import Figure
from tests.support.servers import Servers
from tests.support.soak import run_round
from tests.support.soak_app import EARLY_ACK, TWICE
from tests.support.soak_faults import FAULTS, Fault, killed_before_a_commit, storm
from tests.support.soak_report import report, table

pytestmark = pytest.mark.asyncio

SEED = os.environ.get("SOAK_SEED") or commit()
PATIENCE_S = 20.0
"""What a planted fault has made wrong is not waited for."""


@pytest.mark.deadline(1500)
async def test_all_faults_one_after_the_other_leave_nothing_lost_doubled_or_stuck(
    servers: Servers, record_property: Figure
) -> None:
    found = await run_round(servers, SEED)

    assert found.broken == [], table(report([found], [f"SOAK_SEED={SEED}"]))
    assert len(found.recovered) == len(FAULTS)
    record_property("faults under load", len(FAULTS))
    record_property("events under faults", found.events)


@pytest.mark.deadline(600)
@pytest.mark.parametrize(
    ("plant", "fault", "kind"),
    [(TWICE, storm, "doubled"), (EARLY_ACK, killed_before_a_commit, "acked before commit")],
    ids=[TWICE, EARLY_ACK],
)
async def test_a_planted_fault_turns_the_table_of_a_soak_red(
    servers: Servers, plant: str, fault: Fault, kind: str
) -> None:
    found = report([await run_round(servers, SEED, [fault], plant=plant, patience_s=PATIENCE_S)], [])

    assert found.broken[kind], table(found)
    assert not found.is_clean
    assert f"| {kind} | **{found.broken[kind]:,}** |" in table(found)

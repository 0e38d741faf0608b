"""The table of a soak: rounds are added up, and each line of the ledger is counted under what it is about."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.soak_report import OTHER, Recovered, Round, SoakReport, kind_of, report, table


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("I1 nothing is known of sequence 7, and nothing is to come (Orders)", "lost"),
        ("I3 the intent of ('shop', 'o1:5') is lost", "lost"),
        ("I4 order/o3 stands at 3 and has not applied [2] (Orders)", "lost"),
        ("I1 sequence 7 has 2 outcomes (Spend)", "doubled"),
        ("I2 orders are worth 9, and customers have spent 12", "doubled"),
        ("I4 order/o3 has applied [2] more than once (Orders)", "doubled"),
        ("I7 k was executed 2 times", "doubled"),
        ("I8 k was sent with 2 contents", "doubled"),
        ("I7 k is sent, and the provider has not done it", "lost"),
        ("I5 order/o4 stands at 2, and everything up to 3 is there: it was not drained (Orders)", "stuck"),
        ("I13 k is still leased", "stuck"),
        ("stuck after 'storm': 3 are not settled: o1, o2, o3", "stuck"),
        ("I6 the intent of ('shop', 'ghost') leads back to no applied event", "ghosts"),
        ("I17 sequence 7 was acked before anything of it was committed (Orders)", "acked before commit"),
        ("unsound [('an ack of ours that was taken for another', 's')]", "acked before commit"),
        ("I2 spend has [('ann', 2, 12)]", OTHER),
        ("run ended with 1: Traceback", OTHER),
    ],
)
def test_a_line_of_the_ledger_is_counted_under_what_it_is_about(line: str, kind: str) -> None:
    assert kind_of(line) == kind


def test_rounds_are_added_up_and_the_table_says_so() -> None:
    rounds = [
        Round(
            seed=f"s/{number}",
            seconds=60,
            events=1000,
            messages=1100,
            recovered=[Recovered("storm", float(number)), Recovered("frozen", 10.0)],
            met={"killed batch.written": 1, "outcome applied": 1000},
        )
        for number in (1, 2)
    ]

    found = report(rounds, ["a machine"])

    assert found.is_clean
    assert (found.minutes, found.events, found.duplicates, found.faults) == (2, 2000, 200, 4)
    assert (found.recovery_p50_s, found.recovery_longest_s) == (10, 10)
    assert found.states["killed in a batch"] == 2
    text = table(found)
    assert "2.0 minutes, 2 rounds; seeds s/1 to s/2\na machine\n" in text
    assert "| events | 2,000 |" in text
    assert "| lost | 0 |" in text
    assert "| storm | 2 | 2.0 s | 2.0 s |" in text
    assert msgspec.json.decode(msgspec.json.encode(found), type=SoakReport) == found


def test_one_line_of_one_round_turns_the_table_red() -> None:
    broken = Round(seed="s/2", recovered=[Recovered("storm", None)], broken=["I13 k is still leased"])

    found = report([Round(seed="s/1"), broken], [])

    assert not found.is_clean
    assert "| stuck | **1** |" in table(found)
    assert "- I13 k is still leased" in table(found)

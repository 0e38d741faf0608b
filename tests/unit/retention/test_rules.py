"""Which rows may go, and which retention is refused: pure judgements."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from projectionist.core.settings.settings import Policy, Retention, Settings
from projectionist.runner.jetstream.api import StreamConfig
from projectionist.runner.retention.rules import Held, Rule, decide, under_hold
from projectionist.runner.retention.safety import CLOCKS_S, USUAL_S, kept_s, outlives, remedy, unsafe

DAY = 86_400
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def stream(days: float) -> StreamConfig:
    return StreamConfig(max_age=round(days * DAY * 1e9))


def facts(**given: Any) -> dict[str, Any]:
    usual = {
        "number": 1, "name": "Orders", "stream": "SHOP", "sequence": "contiguous", "incarnation": 3,
        "building": False, "floor": 70, "now": NOW, "kept_since": None,
    }  # fmt: skip
    return usual | given


def decided(policy: Policy, config: StreamConfig | None, **given: Any) -> Rule | Held:
    return decide(facts(**given), policy, Settings(), config)


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic"])
def test_with_an_order_any_retention_is_safe_since_a_position_stands(sequence: str) -> None:
    assert unsafe(Policy(retention_s=0), sequence, stream(0)) == ""
    assert unsafe(Policy(retention_s=60), sequence, stream(7)) == ""


def test_without_order_a_stream_that_keeps_everything_needs_for_ever() -> None:
    assert "the stream has no max_age" in unsafe(Policy(retention_s=365 * DAY), "unordered", stream(0))
    assert unsafe(Policy(retention_s="forever"), "unordered", stream(0)) == ""
    assert unsafe(Policy(), "unordered", stream(0)) == "", "unset is for ever there"
    assert remedy("Mailer", stream(0)) == 'Set retention_s of [consumers.Mailer] to "forever"'


def test_an_unordered_inbox_has_to_outlive_the_stream_and_the_refusal_shows_the_sum() -> None:
    least = 7 * DAY + CLOCKS_S
    assert unsafe(Policy(retention_s=least), "unordered", stream(7)) == ""
    text = unsafe(Policy(retention_s=3 * DAY), "unordered", stream(7))
    assert "604800 + 300 - 259200 = 345900 s remain" in text
    assert remedy("Mailer", stream(7)).endswith('to at least 605100, or "forever"')


def test_unset_is_thirty_days_with_an_order_and_for_ever_without() -> None:
    assert kept_s(Policy(), "contiguous") == kept_s(Policy(), "monotonic") == USUAL_S
    assert kept_s(Policy(), "unordered") is None
    assert kept_s(Policy(retention_s="forever"), "contiguous") is None


def test_a_stream_without_an_age_is_outlived_by_nothing() -> None:
    assert not outlives(1e12, stream(0))
    assert outlives(8 * DAY, stream(7))


def test_what_was_settled_long_enough_ago_goes_at_or_below_the_floor() -> None:
    rule = decided(Policy(retention_s=2 * DAY), stream(0))
    assert rule == Rule(1, "Orders", NOW - timedelta(days=2), 70, 3)


@pytest.mark.parametrize(
    ("policy", "given", "why"),
    [
        (Policy(legal_hold=True, retention_s=1), {}, "legal hold"),
        (Policy(retention_s="forever"), {}, "for ever"),
        (Policy(retention_s=1), {"building": True}, "a rebuild is open"),
        (Policy(retention_s=1), {"sequence": "unordered"}, "no max_age"),
    ],
)
def test_nothing_goes_of_a_consumer(policy: Policy, given: dict[str, Any], why: str) -> None:
    held = decided(policy, stream(0), **given)
    assert isinstance(held, Held)
    assert why in held.why


def test_nothing_goes_while_the_stream_cannot_be_asked() -> None:
    assert isinstance(decided(Policy(), None), Held)


def test_a_hold_on_all_is_a_hold_on_each() -> None:
    held = decide(facts(), Policy(retention_s=1), Settings(retention=Retention(legal_hold=True)), stream(0))
    assert held == Held("Orders", "legal hold")


def test_a_generation_that_is_kept_keeps_the_rows_of_what_was_applied_since() -> None:
    since = NOW - timedelta(days=9)
    rule = decided(Policy(retention_s=2 * DAY), stream(0), kept_since=since)
    assert isinstance(rule, Rule)
    assert rule.before == since


@pytest.mark.parametrize(
    ("sequence", "age", "go"),
    [("contiguous", 0, True), ("monotonic", 0, False), ("monotonic", 9, False), ("monotonic", 1, True)],
)
def test_inbox_rows_that_a_rebuild_reads_stay_as_long_as_the_stream_holds_them(
    sequence: str, age: int, go: bool
) -> None:
    rule = decided(Policy(retention_s=3 * DAY), stream(age), sequence=sequence)
    assert isinstance(rule, Rule) is go
    assert isinstance(rule, Rule) or "rebuilds ask the inbox" in rule.why


def test_what_is_held_is_every_consumer_or_those_that_are_named() -> None:
    names = {1: "Orders", 2: "Spend"}
    one = Settings(consumers={"Spend": Policy(legal_hold=True)})
    assert under_hold(Settings(), names) == []
    assert under_hold(one, names) == [2]
    assert under_hold(Settings(retention=Retention(legal_hold=True)), names) == [1, 2]

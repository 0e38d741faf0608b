"""Which subjects may speak for which source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.nats.subject_relations import covers
from projectionist.core.settings.settings import Policy
from projectionist.runner.decoding.delivery import Reason, Refused
from projectionist.runner.decoding.trusted_sources import TrustedSources

RULE = {"shop": ("orders.order.*",), "till": ("orders.till.*", "orders.refund.>"), "any": (">",)}


@pytest.mark.parametrize(
    ("source", "subject", "may"),
    [
        ("shop", "orders.order.7", True),
        ("shop", "orders.till.7", False),
        ("shop", "orders.order.7.x", False),
        ("shop", "orders.order", False),
        ("shop", "orders.order.*", True),
        ("shop", "orders.>", False),
        ("till", "orders.till.7", True),
        ("till", "orders.refund.7.a", True),
        ("till", "orders.refund", False),
        ("till", "orders.order.7", False),
        ("any", "whatever.it.is", True),
        ("Shop", "orders.order.7", False),
        ("nobody", "orders.order.7", False),
        ("", "orders.order.7", False),
    ],
)
@pytest.mark.parametrize("reads", [["orders.>"], ["orders.order.*"], ["orders.till.*", "orders.order.*"]])
def test_a_source_may_speak_on_its_own_subjects(
    source: str, subject: str, may: bool, reads: list[str]
) -> None:
    # A source whose patterns hold all that is read is not looked at further: what else comes is foreign.
    read = any(covers(one, subject) for one in reads)
    trusted = TrustedSources(RULE, reads)
    assert trusted.may_speak(source, subject) is may or not read


TOKENS = st.sampled_from(["a", "b", "*"])
PATTERNS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join) | st.lists(TOKENS, max_size=2).map(
    lambda tokens: ".".join([*tokens, ">"])
)
SUBJECTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join)


@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(PATTERNS, min_size=1, max_size=2), SUBJECTS)
def test_what_is_known_beforehand_is_what_the_patterns_say(
    patterns: list[str], reads: list[str], subject: str
) -> None:
    if any(covers(one, subject) for one in reads):
        trusted = TrustedSources({"s": tuple(patterns)}, reads)
        assert trusted.may_speak("s", subject) == any(covers(one, subject) for one in patterns)


@pytest.mark.parametrize(
    ("source", "why"),
    [("shop", "may speak on orders\\.order\\.\\* alone"), ("nobody", "'nobody' is none of those")],
)
def test_a_refusal_says_what_the_rule_says(source: str, why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        TrustedSources(RULE, ["orders.>"]).check(source, "orders.till.7")
    assert refused.value.reason is Reason.SOURCE


def test_without_a_rule_there_is_nothing_to_ask() -> None:
    assert TrustedSources.of(Policy(), ["orders.>"]) is None

"""Of several errors at once: the one that decides, whatever order they came in and however deep they lie."""

from __future__ import annotations

from itertools import combinations, permutations

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.runner.batch.consumer import Paused, Superseded, Tripped
from projectionist.runner.process.end_reason import end_reason, is_explained, is_refused

SUPERSEDED = Superseded("newer code has taken over")
UNKNOWN = KeyError("nobody expected it")
PAUSED, TRIPPED = Paused("it is paused"), Tripped("its breaker is open")
OURS = ProjectionistError("the stream is gone")
CLOSED = asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the underlying connection is closed")
RANKED = (SUPERSEDED, UNKNOWN, PAUSED, OURS, CLOSED)


def test_of_two_errors_the_one_that_decides_is_found_in_either_order() -> None:
    for first, second in combinations(RANKED, 2):
        for pair in permutations((first, second)):
            assert end_reason(ExceptionGroup("", pair)) is first


def test_a_pause_that_two_tasks_meet_at_once_is_a_pause() -> None:
    met = ExceptionGroup("", [PAUSED, ExceptionGroup("", [Paused("it is paused")])])
    assert isinstance(end_reason(met), Paused)


def test_it_is_found_in_groups_of_groups_and_alone() -> None:
    assert end_reason(ExceptionGroup("", [OURS, ExceptionGroup("", [CLOSED, TRIPPED])])) is TRIPPED
    assert [end_reason(one) for one in RANKED] == list(RANKED)


def test_a_refusal_among_outages_gives_back_and_says_nothing_about_events() -> None:
    for refusal in (SUPERSEDED, PAUSED, TRIPPED):
        ended = ExceptionGroup("", [CLOSED, ExceptionGroup("", [refusal])])
        assert is_refused(ended)
        assert is_explained(ended)
    assert not is_refused(ExceptionGroup("", [CLOSED, OURS]))


def test_one_error_that_nobody_expected_is_enough_for_care() -> None:
    assert not is_explained(ExceptionGroup("", [PAUSED, UNKNOWN]))
    assert is_refused(ExceptionGroup("", [PAUSED, UNKNOWN]))

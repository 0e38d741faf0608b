"""Runs: what one transaction does with an aggregate's events, new and parked, decided by integers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from projectionist.core.states import Head
from projectionist.projections.definition import Sequencing
from projectionist.projections.judge import Position, Verdict, judge

_NEVER_HELD = (Verdict.STALE, Verdict.REUSED)


class Run(msgspec.Struct, frozen=True):
    """The plan for one aggregate."""

    before: Position
    tries: tuple[int, ...]
    """Versions to fold, in this order, new and parked ones."""
    parks: tuple[int, ...]
    """New versions to park."""
    verdicts: dict[int, Verdict]
    """Of every new version. STALE is a candidate; STALE and REUSED are neither tried nor parked."""
    after: Position
    """The position if every try succeeds."""


def plan_run(
    position: Position,
    new: Iterable[int],
    parked: Sequence[int] = (),
    *,
    sequence: Sequencing = "contiguous",
    limit: int = 500,
    due: bool = False,
) -> Run:
    """Decide one aggregate's part of a batch.

    `new` are versions of identities claimed in this batch, each once. `parked` are the lowest `limit` + 1
    versions of the parked run, in order (fewer: that is all of it); at most `limit` of them are tried, and
    the one beyond tells what comes next. They need reading only where the head can move. `due` says that the
    head is to be tried now: a failed one alone first, a draining one with its followers.
    """
    verdicts = {version: judge(position, version, sequence) for version in sorted(new)}
    for version in verdicts.keys() & set(parked):
        verdicts[version] = Verdict.REUSED  # parked already, under another identity
    fresh = [version for version, verdict in verdicts.items() if verdict not in _NEVER_HELD]
    tries = _tries(position, fresh, parked, sequence, limit=limit, due=due)
    tried = set(tries)
    parks = tuple(version for version in fresh if version not in tried)
    for version in fresh:
        if version in tried:
            verdicts[version] = Verdict.NEXT
        elif verdicts[version] is Verdict.NEXT:
            verdicts[version] = Verdict.BLOCKED
    behind = [version for version in parked if version not in tried] + list(parks)
    left = position.parked - sum(version in tried for version in parked) + len(parks)
    return Run(position, tries, parks, verdicts, _after(position, tries, left, behind, sequence))


def stopped(run: Run, at: int, *, waits: bool) -> tuple[Position, tuple[int, ...]]:
    """The position if the try of version `at` failed, and the new versions to park: `at` and all behind.

    `waits` says that it needs new code or a person, rather than another try later.
    """
    new = run.verdicts
    done = [version for version in run.tries if version < at]
    parks = tuple(version for version in run.tries if version >= at and version in new) + run.parks
    parked = run.before.parked - sum(version not in new for version in done) + len(parks)
    version = done[-1] if done else run.before.version
    return Position(version, Head.WAITING if waits else Head.FAILED, parked=parked), parks


def _tries(
    position: Position,
    fresh: Sequence[int],
    parked: Sequence[int],
    sequence: Sequencing,
    *,
    limit: int,
    due: bool,
) -> tuple[int, ...]:
    if not position.open:
        if not due:
            return ()
        if position.head is not Head.DRAINING:
            return tuple(parked[:1])
    able = sorted([*fresh, *parked[:limit]])
    if sequence == "contiguous":
        return _consecutive(position.version, able)
    beyond = parked[limit] if len(parked) > limit else None
    return tuple(version for version in able if beyond is None or version < beyond)


def _consecutive(last: int, versions: Iterable[int]) -> tuple[int, ...]:
    run = []
    for version in versions:
        if version != last + 1:
            break
        run.append(version)
        last = version
    return tuple(run)


def _after(
    position: Position, tries: Sequence[int], left: int, behind: Iterable[int], sequence: Sequencing
) -> Position:
    if not tries and (not position.open or position.head is Head.WAITING):
        return Position(position.version, position.head, position.finding, left)
    version = tries[-1] if tries else position.version
    if not left:
        return Position(version)
    goes_on = sequence == "monotonic" or version + 1 in behind
    return Position(version, Head.DRAINING if goes_on else Head.GAP, parked=left)

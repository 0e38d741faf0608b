"""What a soak has found: rounds, added up to one table, for people as text and for programs as JSON."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from projectionist.core.percentile import percentile

KINDS: Mapping[str, str] = {
    "lost": r"I1 nothing is known|I3 the intent of|I4 .* has not applied|I7 .* has not done it",
    "doubled": r"I1 sequence .* outcomes|I2 orders are worth|I4 .* more than once|I7 .*(executed|intents)|I8",
    "stuck": r"I5|I13|stuck",
    "ghosts": r"I6",
    "acked before commit": r"I17|unsound .*an ack of ours",
}
"""What the lines of the ledger are about; rows that differ and all others are `OTHER`."""
OTHER = "wrong otherwise"
STATES = {
    "killed in a batch": ("killed batch.",),
    "killed in an attempt": ("killed relay.",),
    "answer of a COMMIT lost": ("commit.unanswered",),
    "batch tried again after an outage": ("batch.outage",),
    "batch tried in parts": ("batch.isolated",),
    "batch overtaken and run anew": ("batch.again",),
    "session ended for a silent process": ("peers.ended",),
    "event tried alone after a crash": ("careful.marked",),
    "found settled when delivered again": ("outcome redelivered",),
    "event that came once more": ("outcome duplicate",),
    "event parked": ("outcome parked",),
    "try of an event failed": ("outcome failed",),
    "missing version fetched": ("gap.fetched",),
    "missing version found late": ("gap.late",),
    "failed event released by newer code": ("rearm.released", "rearm.sampled"),
    "breaker opened": ("breaker.open",),
    "PostgreSQL out of reach": ("postgres.reach.ill",),
    "NATS out of reach": ("broker.disconnected",),
    "attempt begun again": ("attempt again",),
    "consumer ended by newer code": ("worker.ended",),
    "process ended by itself": ("process.ended",),
}
"""The states that are dangerous, by how what was announced of them begins."""


class Recovered(msgspec.Struct, frozen=True):
    """One fault, and the seconds from its end until all that was published before was settled; None: never."""

    fault: str
    seconds: float | None


class Round(msgspec.Struct, kw_only=True):
    """All faults once, on a database and a stream of their own."""

    seed: str
    store_first: bool = False
    seconds: float = 0.0
    events: int = 0
    messages: int = 0
    recovered: list[Recovered] = []
    met: dict[str, int] = {}
    """How often what was announced or counted."""
    broken: list[str] = []
    """What the ledger says, each line with its invariant first."""


class SoakReport(msgspec.Struct, kw_only=True):
    """The sums of all rounds."""

    minutes: float
    about: list[str]
    seeds: list[str]
    events: int
    messages: int
    duplicates: int
    broken: dict[str, int]
    """How many lines of the ledger are about what; all are 0 if nothing is wrong."""
    lines: list[str]
    faults: int
    recovery_p50_s: float | None
    recovery_p99_s: float | None
    recovery_longest_s: float | None
    by_fault: dict[str, list[float]]
    """The seconds of each recovery, in order."""
    states: dict[str, int]

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is wrong."""
        return not any(self.broken.values())


def kind_of(line: str) -> str:
    """Return what a line of the ledger is about."""
    return next((kind for kind, begins in KINDS.items() if re.match(begins, line)), OTHER)


def report(rounds: Sequence[Round], about: Iterable[str]) -> SoakReport:
    """Add rounds up."""
    lines = [line for one in rounds for line in one.broken]
    broken = Counter(kind_of(line) for line in lines)
    met = sum((Counter(one.met) for one in rounds), Counter[str]())
    by_fault: defaultdict[str, list[float]] = defaultdict(list)
    for one in rounds:
        for fault in one.recovered:
            if fault.seconds is not None:
                by_fault[fault.fault].append(fault.seconds)
    took = sorted(seconds for each in by_fault.values() for seconds in each)
    events, messages = sum(one.events for one in rounds), sum(one.messages for one in rounds)
    return SoakReport(
        minutes=sum(one.seconds for one in rounds) / 60,
        about=[*about],
        seeds=[one.seed for one in rounds],
        events=events,
        messages=messages,
        duplicates=messages - events,
        broken={kind: broken[kind] for kind in (*KINDS, OTHER)},
        lines=lines,
        faults=sum(len(one.recovered) for one in rounds),
        recovery_p50_s=_share(took, 0.5),
        recovery_p99_s=_share(took, 0.99),
        recovery_longest_s=max(took, default=None),
        by_fault={fault: sorted(each) for fault, each in sorted(by_fault.items())},
        states={state: _times(met, begins) for state, begins in STATES.items()},
    )


def table(found: SoakReport) -> str:
    """Write a report for people, as Markdown."""
    rows: list[tuple[str, str]] = [
        ("events", f"{found.events:,}"),
        ("duplicates", f"{found.duplicates:,}"),
        *((kind, f"{times:,}" if not times else f"**{times:,}**") for kind, times in found.broken.items()),
        ("faults", f"{found.faults:,}"),
        ("recovery p50", _seconds(found.recovery_p50_s)),
        ("recovery p99", _seconds(found.recovery_p99_s)),
        ("recovery, longest", _seconds(found.recovery_longest_s)),
    ]
    lines = [
        f"{found.minutes:.1f} minutes, {len(found.seeds)} rounds; seeds {found.seeds[0]} to {found.seeds[-1]}",
        *found.about,
        "",
        *_markdown(("what", "found"), rows),
        "",
        *_markdown(
            ("fault", "times", "recovery p50", "longest"),
            [
                (fault, f"{len(each):,}", _seconds(_share(each, 0.5)), _seconds(each[-1]))
                for fault, each in found.by_fault.items()
            ],
        ),
        "",
        *_markdown(("dangerous state", "met"), [(state, f"{n:,}") for state, n in found.states.items()]),
    ]
    if found.lines:
        lines += ["", "What is wrong:", *(f"- {line}" for line in found.lines[:50])]
    return "\n".join(lines) + "\n"


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]


def _times(met: Counter[str], begins: tuple[str, ...]) -> int:
    return sum(times for name, times in met.items() if name.startswith(begins))


def _share(ordered: Sequence[float], share: float) -> float | None:
    found = percentile(ordered, share)
    return None if found is None else found / 1000


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"

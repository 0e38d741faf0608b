"""What the trials have shown, as a page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.rivals.contenders import CONTENDERS
from tests.support.rivals.hardships import HARDSHIPS
from tests.support.rivals.load import Found
from tests.support.rivals.trial import TrialResult

HEAD = """\
# Rivals

The same orders, kills and provider for everybody, and the same judgement: rows and receipts against what was published.
`make rivals` runs it and writes this page; nobody types it. Each contender is set up as its documentation advises for
this work; where we know of a better set-up than ours, we want to hear of it.

"""
FOOT = """
A cell says how many orders are wrong in the end, of {orders}: **rows** missing or wrong, receipts **lost**, receipts
sent **twice**; then how long it took after the last hardship until all was well, and how often a process ended by
itself and had to be started again. *Not given*: its events come from its own store, once and in order. What is not
well {patience:.0f} s after the load, and as long after the release, counts as wrong. The provider remembers keys, and
does a request once whoever repeats it: all contenders send one, Projectionist that of its intent, the others the
order. Where more than one event in twenty fails, [Projectionist's breaker](operations/breaker.md) stops the consumer
until newer code is there: healthy orders wait as well then, which is meant.

What the table does not show is which of them **tells** what waits. Projectionist parks the event that cannot be
applied and those behind it, and shows them with the reason (`projectionist parked list`); the hand-written handlers
leave both to the broker, where they are deliveries among others; eventsourcing's projection stands still for all
orders at the first event that it cannot digest.
"""


def page(results: Sequence[TrialResult], about: Sequence[str], patience_s: float) -> str:
    """Return the page."""
    shown = [one for one in CONTENDERS if any(each.contender == one.name for each in results)]
    lines = [f"- {line}" for line in about]
    lines += ["", "| contender | what it is | versions |", "| --- | --- | --- |"]
    lines += [f"| {one.name} | {one.says} | {one.versions} |" for one in shown]
    lines += [
        "",
        f"| hardship | {' | '.join(one.name for one in shown)} |",
        f"| --- |{' --- |' * len(shown)}",
    ]
    for hardship in HARDSHIPS:
        if found := [each for each in results if each.hardship == hardship.name]:
            first = "before the release" if hardship.odd else f"{patience_s:.0f} s after the load"
            cells = [_cell([each for each in found if each.contender == one.name], first) for one in shown]
            lines.append(f"| **{hardship.name}**: {hardship.says} | {' | '.join(cells)} |")
    orders = max((each.orders for each in results), default=0)
    return HEAD + "\n".join(lines) + "\n" + FOOT.format(orders=orders, patience=patience_s)


def _cell(results: Sequence[TrialResult], first: str) -> str:
    if not results:
        return "*not given*"
    (one,) = results
    took = "never well" if one.recovered_s is None else f"after {one.recovered_s:.0f} s"
    parts = [f"{_wrong(one.found)}, {took}"]
    if one.begun != one.found:
        parts.append(f"{first}: {_wrong(one.begun)}")
    if one.ended:
        parts.append(f"ended by itself {one.ended} times" if one.ended > 1 else "ended by itself once")
    return "; ".join(parts)


def _wrong(found: Found) -> str:
    named = (("rows", found.rows), ("lost", found.lost), ("twice", found.doubled))
    wrong = [f"**{count} {what}**" for what, count in named if count]
    return ", ".join(wrong) or "all well"

"""A waterfall of what happened, as one HTML page that needs nothing else. Pure: bars in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape

import msgspec

_LEAST_PERCENT = 0.35
"""So wide is a bar at least, or nobody would see it."""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2f9e63; --bad: #d64545; --wait: #d9962b; --plain: #5b7fd6; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }
h1 { font-size: 1.3rem; } code { font-size: .92em; } p { color: color-mix(in srgb, currentColor 75%, transparent); }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .5rem; text-align: left; }
tr { border-top: 1px solid var(--line); } th { font-weight: 600; border: 0; }
td.what { white-space: nowrap; width: 1%; } td.who { white-space: nowrap; width: 1%; opacity: .75; }
td.when { position: relative; min-width: 22rem; height: 1.4rem; }
.bar { position: absolute; top: .45rem; height: .8rem; border-radius: .2rem; background: var(--plain); }
.good { background: var(--good); } .bad { background: var(--bad); } .wait { background: var(--wait); }
.took { position: absolute; top: .25rem; font-size: .8em; white-space: nowrap; padding: 0 .4rem; }
summary { cursor: pointer; }
dl { margin: .2rem 0 .4rem 1rem; display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; }
dt { opacity: .7; } dd { margin: 0; word-break: break-all; }
"""


class TimelineBar(msgspec.Struct, frozen=True):
    """One thing that happened: `look` is good, bad, wait or plain; without an end it goes on, or nobody knows."""

    name: str
    who: str
    start: datetime
    end: datetime | None = None
    depth: int = 0
    look: str = "plain"
    facts: dict[str, str] = {}


def page(title: str, trace_id: str | None, bars: Sequence[TimelineBar]) -> str:
    """The page. Bars stand in the given order, under a common axis from the first start to the last end."""
    begin = min((bar.start for bar in bars), default=datetime.min.replace(tzinfo=UTC))
    over = max((bar.end or bar.start for bar in bars), default=begin)
    span = max(over - begin, timedelta(milliseconds=1))
    rows = "\n".join(_row(bar, begin, span) for bar in bars)
    trace = f"Trace <code>{escape(trace_id)}</code>. " if trace_id else ""
    since = escape(begin.isoformat(sep=" ", timespec="milliseconds"))
    told = (
        f"{len(bars)} steps in {_took(over - begin)}, from {since}."
        if bars
        else "Nothing of it is known here."
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<p>{trace}{told}</p>
<table><tr><th>what</th><th>who</th><th>when</th></tr>
{rows}
</table></body></html>
"""


def _row(bar: TimelineBar, begin: datetime, span: timedelta) -> str:
    left = (bar.start - begin) / span * 100
    width = max(((bar.end or bar.start) - bar.start) / span * 100, _LEAST_PERCENT)
    left = min(left, 100 - _LEAST_PERCENT)
    width = min(width, 100 - left)
    text = _took(bar.end - bar.start) if bar.end else "open"
    # Behind its bar, or before it where the page ends.
    place = f"left:{left + width:.3f}%" if left + width < 80 else f"right:{100 - left:.3f}%"
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in bar.facts.items())
    name = escape(bar.name)
    what = f"<details><summary>{name}</summary><dl>{facts}</dl></details>" if facts else name
    return (
        f'<tr><td class="what" style="padding-left:{0.5 + 1.4 * bar.depth:.1f}rem">{what}</td>'
        f'<td class="who">{escape(bar.who)}</td><td class="when">'
        f'<span class="bar {escape(bar.look)}" style="left:{left:.3f}%;width:{width:.3f}%"></span>'
        f'<span class="took" style="{place}">{text}</span></td></tr>'
    )


def _took(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))

"""Charts as SVG from the server: geometry in attributes, colour by class, a sentence beside the picture. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT, EDGE = 96.0, 20.0, 1.0
BARS_WIDTH, BARS_HEIGHT = 600.0, 96.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TICKS = (
    *((0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s"), (MINUTE, "1 min")),
    *((10 * MINUTE, "10 min"), (HOUR, "1 h"), (10 * HOUR, "10 h"), (DAY, "1 d"), (10 * DAY, "10 d")),
)
LINE = 2
"""So many points make a line."""
APART, SEEN = 12.0, 0.6
"""So many hundredths of the width lie between two ticks at least; so wide a bar is always."""


def sparkline(numbers: Sequence[float], says: str) -> Markup:
    """Draw a line through these numbers, which are of equal stretches of time; the bottom is nought."""
    most, step = max(numbers, default=0) or 1, WIDTH / max(len(numbers) - 1, 1)
    points = " ".join(
        f"{place * step:.1f} {HEIGHT - EDGE - number / most * (HEIGHT - 2 * EDGE):.1f}"
        for place, number in enumerate(numbers)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {:.0f} {:.0f}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="area" d="M{} L{:.0f} {:.0f} 0 {:.0f}Z"/><path d="M{}"/></svg>'
    ).format(WIDTH, HEIGHT, says, points, WIDTH, HEIGHT, HEIGHT, points)


def applied(numbers: Sequence[int]) -> Markup:
    """Draw what was applied in each of the last minutes."""
    if not any(numbers):
        return sparkline(numbers, f"nothing applied in the last {len(numbers)} minutes")
    says = f"applied a minute, last {len(numbers)} minutes: {min(numbers):,} to {max(numbers):,}"
    return sparkline(numbers, f"{says}, in the last one {numbers[-1]:,}")


def pace(rates: Sequence[float]) -> Markup:
    """Draw how fast a build has gone, of equal stretches of time; two of them make a line."""
    if len(rates) < LINE:
        return Markup()
    says = f"a second, from {round(min(rates)):,} to {round(max(rates)):,}, at last {round(rates[-1]):,}"
    return sparkline(rates, says)


def failed(numbers: Sequence[int]) -> Markup:
    """Draw how many tries have failed in each of the last minutes, a bar each, and say it in words."""
    step, most = BARS_WIDTH / max(len(numbers), 1), max(numbers, default=0) or 1
    drawn = Markup().join(
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            place * step, BARS_HEIGHT * (1 - n / most), step * 0.85, BARS_HEIGHT * n / most
        )
        for place, n in enumerate(numbers)
        if n
    )
    return Markup(
        '<svg class="bars low" viewBox="0 0 {:.0f} {:.0f}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(BARS_WIDTH, BARS_HEIGHT, failures(numbers), drawn)


def failures(numbers: Sequence[int]) -> str:
    """Tell the same in words: since when, how often, and when most."""
    places = [place for place, n in enumerate(numbers) if n]
    if not places:
        return f"no try has failed in the last {len(numbers)} minutes"
    most, first = max(numbers), len(numbers) - places[0]
    tries = "1 try has" if sum(numbers) == 1 else f"{sum(numbers):,} tries have"
    told = f"{tries} failed in {len(places)} of the last {len(numbers)} minutes, the first {first} min ago"
    peak = f"; most, {most:,}, {len(numbers) - numbers.index(most)} min ago" if len(places) > 1 else ""
    return told + peak


class TimeScale:
    """Times as hundredths of a width, in powers of ten: what took milliseconds is seen beside what took hours."""

    def __init__(self, longest_s: float) -> None:
        self._most = math.log10(1 + max(longest_s, 0.01) * 1000)

    def place(self, after_s: float) -> float:
        """Return where a moment lies, in hundredths of the width."""
        return min(100.0, math.log10(1 + max(after_s, 0.0) * 1000) / self._most * 100)

    def bar(self, began_s: float, ended_s: float, tone: str, says: str) -> Markup:
        """Draw a stretch of time; one too short to be seen is drawn as wide as can be."""
        left = min(self.place(began_s), 100 - SEEN)
        width = max(self.place(ended_s) - left, SEEN)
        return Markup(
            '<svg class="fall" role="img" aria-label="{}"><rect class="base" x="0" y="7.5" width="100%" height="1"/>'
            '<rect class="{}" x="{:.2f}%" y="4" width="{:.2f}%" height="8" rx="1.5"/></svg>'
        ).format(says, tone, left, width)

    def ticks(self, end: str) -> Markup:
        """Draw the powers of ten that have room, between nought and `end`, what the width is."""
        shown, last = [Markup('<text x="0%" y="12" text-anchor="start">0</text>')], 0.0
        for after_s, told in TICKS:
            place = self.place(after_s)
            if place - last >= APART and 100 - place >= APART:
                last = place
                shown.append(
                    Markup('<text x="{:.1f}%" y="12" text-anchor="middle">{}</text>').format(place, told)
                )
        shown.append(Markup('<text x="100%" y="12" text-anchor="end">{}</text>').format(end))
        return Markup('<svg class="ticks" aria-hidden="true">{}</svg>').format(Markup().join(shown))

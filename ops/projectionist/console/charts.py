"""Charts as SVG from the server: geometry in attributes, colour by class, a sentence beside the picture. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT, EDGE = 96.0, 20.0, 1.0


def sparkline(numbers: Sequence[int], says: str) -> Markup:
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

"""Curves as an SVG picture, one panel each, sizes on a logarithmic axis. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import NamedTuple

WIDTH, HEIGHT, GAP = 260, 170, 50


class Curve(NamedTuple):
    """What grows, and pairs of size and value."""

    title: str
    points: Sequence[tuple[float, float]]


def svg(curves: Sequence[Curve], unit: str) -> str:
    """Return the picture; every value axis begins at zero."""
    panels = "\n".join(_panel(curve, unit, at) for at, curve in enumerate(curves))
    width, height = len(curves) * (WIDTH + GAP) + GAP, HEIGHT + 2 * GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{panels}\n</svg>\n'
    )


def _panel(curve: Curve, unit: str, at: int) -> str:
    left = GAP + at * (WIDTH + GAP)
    sizes = [log10(max(size, 1)) for size, _ in curve.points]
    top = max((value for _, value in curve.points), default=0) or 1
    first, span = min(sizes, default=0), (max(sizes, default=0) - min(sizes, default=0)) or 1
    places = [
        (left + (size - first) / span * WIDTH, GAP + HEIGHT * (1 - value / top))
        for size, (_, value) in zip(sizes, curve.points, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#2563eb"/>'
        f'<text x="{x:.1f}" y="{y - 7:.1f}" text-anchor="middle">{value:,.0f}</text>'
        f'<text x="{x:.1f}" y="{GAP + HEIGHT + 14}" text-anchor="middle">{size:,.0f}</text>'
        for (x, y), (size, value) in zip(places, curve.points, strict=True)
    )
    return (
        f'<g><text x="{left}" y="{GAP - 24}" font-weight="bold">{escape(unit)} by {escape(curve.title)}</text>'
        f'<path d="M{left},{GAP}V{GAP + HEIGHT}H{left + WIDTH}" fill="none" stroke="#999"/>'
        f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="2"/>{marks}</g>'
    )

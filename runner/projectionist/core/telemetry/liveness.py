"""Signs of life of this process's loops: each says that it comes by, and how long it may stay away."""

from __future__ import annotations

import msgspec

from projectionist.core import clock

Key = tuple[str, str]


class Sign(msgspec.Struct):
    """The last sign of one loop. `vital`: without it the process is no use, whatever its servers do."""

    at: float
    within_s: float
    vital: bool


_signs: dict[Key, Sign] = {}


def beat(loop: str, who: str = "", *, within_s: float, vital: bool = True) -> None:
    """Note that the loop has come by; it comes again within so many seconds, or `ended` is called."""
    _signs[loop, who] = Sign(clock.now(), within_s, vital)


def ended(loop: str, who: str = "") -> None:
    """Note that the loop is over, as it should be."""
    _signs.pop((loop, who), None)


def ages() -> dict[Key, float]:
    """Return seconds since each loop came by."""
    now = clock.now()
    return {key: now - sign.at for key, sign in dict(_signs).items()}  # asked by a thread, while loops begin


def late(*, vital: bool) -> list[str]:
    """Return the loops that stay away too long: those without which the process is no use, or those that move data."""
    now = clock.now()
    return sorted(
        f"{loop} {who}".strip()
        for (loop, who), sign in _signs.items()
        if sign.vital is vital and now - sign.at > sign.within_s
    )

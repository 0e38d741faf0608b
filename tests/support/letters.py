"""The characters that no text may hold which enters a statement, a header or a subject."""

from __future__ import annotations

import sys
from unicodedata import category


def _unprintable() -> list[str]:
    """Of each category of what cannot be printed all characters, or the ends of each run of them."""
    kinds = {"Cc", "Cf", "Zl", "Zp", "Zs", "Cs", "Co", "Cn"}
    found = []
    for code in range(sys.maxunicode + 1):
        kind = category(chr(code))
        edge = kind != category(chr(max(code - 1, 0))) or kind != category(chr(min(code + 1, sys.maxunicode)))
        if kind in kinds and code != ord(" ") and (edge or kind in ("Cc", "Cf", "Zs")):
            found.append(chr(code))
    return found


UNPRINTABLE = _unprintable()

"""Blots secrets out of what a provider echoes, in whatever form it writes them. Pure."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache

BLOT = "***"
_LEAST_CODED = 8
"""A shorter piece of Base64 is any text."""
_ALPHABETS = {"+": r"(?:[+-]|%2[Bb])", "/": r"(?:/|_|\\/|%2[Ff])"}


def parts_of(values: Iterable[str]) -> tuple[str, ...]:
    """Return values of secret headers, and what stands behind a scheme in them: `Bearer …`, `Basic …`."""
    found = list(values)
    return (*found, *(value.partition(" ")[2] for value in found if " " in value))


def blotted(text: str, secrets: Iterable[str]) -> str:
    """Return `text` without these secrets: as they are, and escaped for JSON, HTML or a URL, or in Base64."""
    for secret in secrets:
        if secret:
            text = _forms(secret).sub(BLOT, text)
    return text


@lru_cache(maxsize=256)
def _forms(secret: str) -> re.Pattern[str]:
    letters = "".join(f"(?:{'|'.join(_letter(one))})" for one in secret)
    return re.compile("|".join((letters, *_coded(secret.encode("utf-8", "surrogatepass")))))


def _letter(one: str) -> list[str]:
    """Return what a letter may be written as."""
    code = ord(one)
    units = one.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    percent = "".join(f"%(?:25)*(?i:{byte:02x})" for byte in one.encode("utf-8", "surrogatepass"))
    entities = rf"&#(?:0*{code}|[xX]0*(?i:{code:x}));"
    forms = [re.escape(one), escaped, percent, entities]
    if one in '/"\\':
        forms.append(re.escape(f"\\{one}"))
    if html.escape(one) != one:
        forms.append(re.escape(html.escape(one)))
    return forms


def _coded(secret: bytes) -> Iterable[str]:
    """Yield it in Base64, wherever it stands among other bytes: without the digits that depend on those."""
    for before in range(3):
        digits = b64encode(bytes(before) + secret).decode()
        first, last = (0, 2, 3)[before], (0, 3, 2)[(before + len(secret)) % 3]
        core = digits[first : len(digits) - last]
        if len(core) >= _LEAST_CODED:
            yield "".join(_ALPHABETS.get(one, one) for one in core)

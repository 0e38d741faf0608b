"""Text as one token of a NATS subject, and back; and what may be a stream's name."""

from __future__ import annotations

import re
from urllib.parse import unquote

from projectionist.core.printable_text import is_printable

NAME_BYTES = 255
"""The longest name of a stream that NATS takes."""
_UNSAFE = re.compile(r"[\s\x00-\x20\x7f.*>%]")


def encoded(text: str) -> str:
    """Return `text` as a token: what NATS does not allow in one is percent-coded, the rest stays readable."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def decoded(token: str) -> str:
    """Undo `encoded`; UnicodeDecodeError where the escapes are not UTF-8."""
    return unquote(token, errors="strict") if "%" in token else token


def is_stream_name(name: object) -> bool:
    """Return whether NATS takes it: it becomes a token of subjects, and a folder."""
    fits = isinstance(name, str) and bool(name) and is_printable(name, NAME_BYTES)
    return fits and re.search(r"[.*>\\/\s]", str(name)) is None

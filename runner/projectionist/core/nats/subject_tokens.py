"""Text as one token of a NATS subject, and back."""

from __future__ import annotations

import re
from urllib.parse import unquote

_UNSAFE = re.compile(r"[\s\x00-\x20\x7f.*>%]")


def encoded(text: str) -> str:
    """`text` as a token: what NATS does not allow in one is percent-coded, the rest stays readable."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def decoded(token: str) -> str:
    """Undo `encoded`; UnicodeDecodeError where the escapes are not UTF-8."""
    return unquote(token, errors="strict") if "%" in token else token

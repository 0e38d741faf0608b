"""The header that each part of the envelope is read from, and whether the processes of a consumer agree on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.cloudevents import DEFAULTS
from projectionist.core.printable_text import join_first

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Headers

SHOWN = 3
"""So many processes are named for each header; of the rest it is said how many they are."""


def mapping(headers: Headers) -> dict[str, str]:
    """Give the header by part of the envelope, in lower case: names of headers have no case."""
    return {word: str(getattr(headers, word)).lower() for word in DEFAULTS}


def written(headers: Headers) -> str:
    """Write the mapping as it is kept beside a process."""
    return msgspec.json.encode(mapping(headers)).decode()


def disagreement(read: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Say what these processes, each with its mapping, read from different headers; empty where they agree."""
    known = list(read)
    parts = []
    for word in DEFAULTS:
        by_header: dict[str, list[str]] = {}
        for process, headers in known:
            if word in headers and process not in (readers := by_header.setdefault(headers[word], [])):
                readers.append(process)
        if len(by_header) > 1:
            readings = " and ".join(
                f"{header} ({join_first(by_header[header], SHOWN)})" for header in sorted(by_header)
            )
            parts.append(f"{word} from {readings}")
    return f"its processes read different headers: {'; '.join(parts)}" if parts else ""


def unified(consumer: str) -> str:
    """Say what makes the processes of a consumer agree."""
    return (
        f"Start them all with the same headers of [consumer_defaults] or [consumers.{consumer}]: with the wrong ones "
        "an event goes into quarantine, or is taken for another"
    )

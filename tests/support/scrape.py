"""What a process answers at its health listener, and the metrics it shows there."""

from __future__ import annotations

import asyncio
import re

import msgspec

from projectionist.ops.embedded import processes


class Answer(msgspec.Struct, frozen=True):
    """One answer."""

    status: int
    text: str


def free_port() -> int:
    """A port nobody listens at."""
    return processes.free_port()


async def get(port: int, path: str, method: str = "GET", version: str = "1.1") -> Answer:
    """Return what the listener says; status 0 where nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return Answer(0, "")
    writer.write(f"{method} {path} HTTP/{version}\r\nHost: here\r\n\r\n".encode())
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = data.decode().partition("\r\n\r\n")
    return Answer(int(head.split()[1]) if head else 0, body)


def families(text: str) -> dict[str, str]:
    """The metrics of a scrape and their types, by the names that a query uses."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def series(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of one series by their labels."""
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE):
        pairs = re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels)
        found[tuple(sorted(pair for pair in pairs if not pair[0].startswith("otel_scope")))] = float(value)
    return found

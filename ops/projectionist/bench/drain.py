"""The bare drain: every event taken, its headers read, and acked. Nothing is kept: what transport alone costs."""

from __future__ import annotations

from projectionist.bench import plain
from projectionist.core.settings.settings import Settings


async def work(settings: Settings) -> None:
    """Drain until the process is ended."""
    source, limits = await plain.source(settings), settings.batch
    await source.open()
    while True:
        arrivals = await source.take(limits.max_rows, limits.max_bytes, limits.max_ms / 1000)
        for arrival in arrivals:
            plain.read(arrival)
        source.ack(arrivals)


if __name__ == "__main__":
    plain.main(work)

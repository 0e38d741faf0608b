"""One arrival, read: a Delivery, or Unreadable and why."""

from __future__ import annotations


def num_pending(reply: bytes) -> int:
    """How many messages the broker held for the durable when it sent the one with this reply subject."""
    words = reply.split(b".")
    try:
        return int(words[8 if len(words) == 9 else 10])
    except (IndexError, ValueError):
        return 0

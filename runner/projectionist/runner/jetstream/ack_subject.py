"""What JetStream writes into the reply subject of a message. Pure."""

from __future__ import annotations


def parse_ack_subject(reply: bytes) -> tuple[int, int, int]:
    """Return stream sequence, delivered count and time of storing, as JetStream writes them into the reply subject.

    `$JS.ACK.stream.durable.…` or, from newer brokers, `$JS.ACK.domain.account.stream.durable.…`.
    """
    words = reply.split(b".")
    first = 4 if len(words) == 9 else 6
    return int(words[first + 1]), int(words[first]), int(words[first + 3])


def stream_sequence(reply: bytes) -> int:
    """Return the stream sequence alone."""
    words = reply.split(b".")
    return int(words[5 if len(words) == 9 else 7])


def num_pending(reply: bytes) -> int:
    """Return how many messages the broker held for the durable when it sent the one with this reply subject."""
    words = reply.split(b".")
    try:
        return int(words[8 if len(words) == 9 else 10])
    except (IndexError, ValueError):
        return 0

"""The subjects of JetStream's API that are asked, and those of acks. What a process may ask is made of the same."""

from __future__ import annotations

API = "$JS.API"
ANY = "*"
"""One token of a permission: every name."""


def account() -> str:
    """Ask for what the account may hold, and holds."""
    return f"{API}.INFO"


def user_info() -> str:
    """Ask the server who this connection is, and what it may do."""
    return "$SYS.REQ.USER.INFO"


def stream_names() -> str:
    """Ask which streams take a subject."""
    return f"{API}.STREAM.NAMES"


def stream_info(stream: str) -> str:
    """Ask for a stream's configuration and state."""
    return f"{API}.STREAM.INFO.{stream}"


def stream_create(stream: str) -> str:
    """Make a stream."""
    return f"{API}.STREAM.CREATE.{stream}"


def stream_update(stream: str) -> str:
    """Change a stream's configuration."""
    return f"{API}.STREAM.UPDATE.{stream}"


def stream_purge(stream: str) -> str:
    """Take all messages out of a stream, or those of a subject. Nothing here asks for it."""
    return f"{API}.STREAM.PURGE.{stream}"


def message_delete(stream: str) -> str:
    """Take one message out of a stream, as `erase --stream` does."""
    return f"{API}.STREAM.MSG.DELETE.{stream}"


def message_get(stream: str) -> str:
    """Ask a stream's leader for one message."""
    return f"{API}.STREAM.MSG.GET.{stream}"


def consumer_info(stream: str, consumer: str) -> str:
    """Ask for a consumer's configuration and state."""
    return f"{API}.CONSUMER.INFO.{stream}.{consumer}"


def consumer_create(stream: str, consumer: str, filter_subject: str = "") -> str:
    """Make or change a consumer; a filter is part of the subject."""
    made = f"{API}.CONSUMER.CREATE.{stream}.{consumer}"
    return f"{made}.{filter_subject}" if filter_subject else made


def consumer_delete(stream: str, consumer: str) -> str:
    """Delete a consumer."""
    return f"{API}.CONSUMER.DELETE.{stream}.{consumer}"


def consumer_next(stream: str, consumer: str) -> str:
    """Order messages of a consumer."""
    return f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def consumer_reset(stream: str, consumer: str) -> str:
    """Have a consumer go back, or on, to another message."""
    return f"{API}.CONSUMER.RESET.{stream}.{consumer}"


def acks(stream: str, consumer: str) -> tuple[str, str]:
    """Return the patterns of a consumer's acks: of this release of the server, and of newer ones."""
    return f"$JS.ACK.{stream}.{consumer}.>", f"$JS.ACK.*.*.{stream}.{consumer}.>"

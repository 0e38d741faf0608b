"""Compares when a durable was made, as servers tell it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

APART = timedelta(milliseconds=100)
"""A server before 2.11 tells after its first restart when the durable was written down, a moment later. Where that took
longer, or one was deleted sooner, more is read again than would have to be."""


def is_same(one: datetime, other: datetime) -> bool:
    """Return whether both may be of one durable: nobody deletes and makes one anew so soon."""
    return abs(one - other) < APART

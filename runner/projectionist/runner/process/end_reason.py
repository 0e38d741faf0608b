"""Which of several errors at once says why a consumer's work ended, and what the end says about its events. Pure."""

from __future__ import annotations

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.task_groups import leaves
from projectionist.runner.batch.consumer import Paused, Superseded, Tripped

REFUSALS = (Paused, Superseded, Tripped)
"""Ends that say nothing about the events: others may have them at once."""


def end_reason(error: Exception) -> Exception:
    """Return the error that decides: that newer code is there, what nobody expected, a refusal, another of ours.

    An outage comes last: sessions and connections end with the work, whatever has ended it.
    """
    return min(leaves(error), key=_rank)


def is_refused(error: Exception) -> bool:
    """Return whether a refusal is among what work ended for."""
    return any(isinstance(one, REFUSALS) for one in leaves(error))


def is_explained(error: Exception) -> bool:
    """Return whether work ended for reasons of ours, or an outage, and not in the middle of an event."""
    return all(isinstance(one, ProjectionistError) or is_transient(one) for one in leaves(error))


def _rank(one: Exception) -> int:
    match one:
        case Superseded():
            return 0
        case _ if not is_explained(one):
            return 1
        case Paused() | Tripped():
            return 2
        case _:
            return 4 if is_transient(one) else 3

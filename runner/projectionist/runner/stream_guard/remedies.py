"""The next step of an operator, for each kind of incident that halts a consumer."""

from __future__ import annotations

from projectionist.core.postgres.database_identity import ADOPT
from projectionist.core.states import IncidentKind

_ADOPT = "`projectionist adopt {name} --reason …`"


REMEDIES = {
    IncidentKind.STREAM_REPLACED: f"If the new stream is to be read, {_ADOPT}; otherwise restore the old one",
    IncidentKind.STREAM_REGRESSED: f"Restore the stream if you can; {_ADOPT} goes on without what it lost",
    IncidentKind.STREAM_COPIED: f"If the copy is to be read from now on, {_ADOPT}",
    IncidentKind.DATABASE_COPIED: f"If this database is the real one, {ADOPT}; otherwise drop it",
    IncidentKind.DURABLE_TAKEN: f"Stop what runs on the other database; if this one is the real one, {ADOPT}",
    IncidentKind.STREAM_PURGED: f"Missing versions show as gaps; {_ADOPT} closes this once it is dealt with",
}


def remedy(fact: IncidentKind, consumer: str) -> str:
    """Return the next step, in one sentence."""
    return REMEDIES[fact].format(name=consumer)

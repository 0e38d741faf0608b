"""What a durable bears so that nobody else reads from it: its database, schema and consumer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.database_identity import ADOPT

if TYPE_CHECKING:
    from projectionist.core.postgres.database_identity import Owner

_OURS = "projectionist."
TOKEN, SYSTEM, TIMELINE, DATABASE, NAME, SCHEMA, CONSUMER = (
    _OURS + word for word in ("owner", "system", "timeline", "database", "name", "schema", "consumer")
)
_SERVERS = "_nats."
"""What the broker itself writes into metadata; it refuses to be told."""


class DurableNotOurs(ProjectionistError):
    """The durable belongs to another database. Nothing is read from it until somebody has decided."""


class DurableOwner(Enum):
    """Whose durable it is."""

    OURS = "ours"
    UNNAMED = "unnamed"
    """It has no owner yet, or the broker keeps none (before 2.10)."""
    FORMER = "former"
    """It is named after what this database was before a failover or a restore in its place."""
    THEIRS = "theirs"


class DurableMark(msgspec.Struct, frozen=True):
    """Says what the durable of one consumer is to bear."""

    owner: Owner
    number: int
    consumer: str

    def metadata(self, found: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the durable's metadata, with what others have written into `found`."""
        place, others = self.owner.place, (found or {}).items()
        kept = {name: value for name, value in others if not name.startswith((_OURS, _SERVERS))}
        return kept | {
            TOKEN: self.owner.token,
            SYSTEM: place.system or "",
            TIMELINE: str(place.timeline),
            DATABASE: str(place.database),
            NAME: place.name,
            SCHEMA: self.owner.schema,
            CONSUMER: f"{self.number} {self.consumer}",
        }


def whose(durable_mark: DurableMark, found: Mapping[str, str]) -> DurableOwner:
    """Return whose durable bears this metadata.

    A token says it; where a failover lost ours, the higher timeline of the same database does.
    """
    token = found.get(TOKEN)
    if token is None:
        return DurableOwner.UNNAMED
    if token == durable_mark.owner.token:
        return DurableOwner.OURS
    if token == durable_mark.owner.before or _is_higher(durable_mark, found):
        return DurableOwner.FORMER
    return DurableOwner.THEIRS


def lacks(durable_mark: DurableMark, found: Mapping[str, str]) -> bool:
    """Return whether a durable that is not another's is to be written anew."""
    return any(found.get(name) != value for name, value in durable_mark.metadata().items())


def refuse(durable_mark: DurableMark, stream: str, durable: str, found: Mapping[str, str]) -> None:
    """Raise DurableNotOurs if the durable is another's."""
    if whose(durable_mark, found) is DurableOwner.THEIRS:
        raise DurableNotOurs(
            f"durable {durable} of stream {stream} belongs to {_described(found)}, and this is "
            f"{durable_mark.owner.place}, schema {durable_mark.owner.schema}",
            remedy=f"Stop what runs there; if this database is the real one, {ADOPT}",
        )


def _is_higher(durable_mark: DurableMark, found: Mapping[str, str]) -> bool:
    place = durable_mark.owner.place
    ours = (
        place.system,
        str(place.database),
        durable_mark.owner.schema,
        f"{durable_mark.number} {durable_mark.consumer}",
    )
    theirs = tuple(found.get(name) for name in (SYSTEM, DATABASE, SCHEMA, CONSUMER))
    timeline = found.get(TIMELINE, "")
    return ours == theirs and timeline.isdecimal() and int(timeline) < place.timeline


def _described(found: Mapping[str, str]) -> str:
    known = {
        name: found.get(name) or "unknown" for name in (NAME, DATABASE, SYSTEM, TIMELINE, SCHEMA, CONSUMER)
    }
    return (
        f"{known[NAME]} ({known[DATABASE]}) of cluster {known[SYSTEM]}, timeline {known[TIMELINE]}, "
        f"schema {known[SCHEMA]}, consumer {known[CONSUMER]}"
    )

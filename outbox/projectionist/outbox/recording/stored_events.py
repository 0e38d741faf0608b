"""What a stream holds of an aggregate, against what a call would add. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import cloudevents
from projectionist.outbox.recording.call import RecordCall, StandingEvent, judge_call

if TYPE_CHECKING:
    from nats.js.api import RawStreamMsg

    from projectionist.outbox.publishing.draft import Draft
    from projectionist.outbox.recording.recorded import Recorded


class StoredEvent(msgspec.Struct, frozen=True):
    """One message of a stream, as far as a call has to know it."""

    headers: dict[str, str]
    data: bytes

    def _field(self, word: str) -> str:
        return self.headers.get(cloudevents.DEFAULTS[word], "")

    def belongs_to(self, call: RecordCall) -> bool:
        """Return whether it is an event of the call's aggregate, with a version."""
        written = cloudevents.compose(dict(zip(("aggregate_type", "aggregate"), _parts(call), strict=True)))
        same = all(
            self._field(word) == written.get(cloudevents.DEFAULTS[word], "")
            for word in ("aggregate_type", "aggregate")
        )
        return same and self._field("version").isdigit()

    @property
    def version(self) -> int:
        """Return its aggregate's version."""
        return int(self._field("version"))

    @property
    def previous(self) -> int | None:
        """Return the sequence of the message before it under its subject, 0 for none; None where it is not told."""
        text = self.headers.get(cloudevents.EXPECTED_SEQUENCE, "")
        return int(text) if text.isdigit() else None

    def has_id_of(self, draft: Draft) -> bool:
        """Return whether it has the identity of a draft."""
        return all(
            self._field(word) == draft.headers[cloudevents.DEFAULTS[word]] for word in ("source", "id")
        )

    def standing(self, call: RecordCall, draft: Draft) -> StandingEvent:
        """Compare it with the draft that has its id."""
        ours = self.belongs_to(call)
        kind = cloudevents.DEFAULTS["type"]
        same = ours and self.data == draft.data and self.headers.get(kind) == draft.headers[kind]
        return StandingEvent(self.version if ours else 0, same)


def read_stored(message: RawStreamMsg) -> StoredEvent:
    """Read a message of the stream."""
    return StoredEvent(dict(message.headers or {}), message.data or b"")


def standing_of(
    call: RecordCall, drafts: Sequence[Draft], stored: Sequence[StoredEvent]
) -> list[StandingEvent | None]:
    """Return what stands under the id of each draft among these messages."""
    return [
        next((one.standing(call, draft) for one in stored if one.has_id_of(draft)), None) for draft in drafts
    ]


def next_step(call: RecordCall, actual: int, standing: Sequence[StandingEvent | None]) -> int | Recorded:
    """Return the first event to publish, or what an earlier call has recorded; raises as `judge_call`.

    A call under an id of its own that ended between two of its events is gone on with, if nobody came between.
    """
    done = next((n for n, one in enumerate(standing) if one is None or not one.same), len(standing))
    begun = call.id is not None and done < len(standing) and not any(standing[done:])
    if actual == call.expected + done and (begun or not any(standing)):
        return done
    partly = (
        f" ({done} of {len(standing)} events of this call are stored)" if 0 < done < len(standing) else ""
    )
    return judge_call(call, actual, standing, partly)


def _parts(call: RecordCall) -> tuple[str | None, str]:
    kind, _, identity = call.aggregate.partition("/")
    return kind or None, identity

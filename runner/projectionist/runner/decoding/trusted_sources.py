"""Which subjects may speak for which source of events. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.nats.subject_relations import covers
from projectionist.runner.decoding.delivery import Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from projectionist.core.settings.settings import Policy


class TrustedSources:
    """The rule of one consumer: each source that may speak at all, with the patterns of its subjects.

    NATS can be told who may publish to which subject, and knows nothing of headers. Without a rule whoever may publish
    to any subject of a stream may take the identity, source and id, of an event that somebody is about to publish.

    A source whose patterns hold all that the consumer reads is known by one look at a set, whatever the subject.
    """

    def __init__(self, rule: Mapping[str, Sequence[str]], reads: Sequence[str]) -> None:
        self._rule = rule
        self._everywhere = frozenset(
            source
            for source, patterns in rule.items()
            if all(any(covers(one, read) for one in patterns) for read in reads)
        )

    @classmethod
    def of(cls, policy: Policy, reads: Sequence[str]) -> TrustedSources | None:
        """Return the rule of a policy; None where it has none, and everybody may speak for everybody."""
        return cls(policy.sources, reads) if policy.sources else None

    def may_speak(self, source: str, subject: str) -> bool:
        """Return whether an event on this subject may say that it is of this source."""
        return source in self._everywhere or any(covers(one, subject) for one in self._rule.get(source, ()))

    def check(self, source: str, subject: str, which: str = "") -> None:
        """Refuse an event that may not; `which`: what makes this its source, where its header does not."""
        if not self.may_speak(source, subject):
            raise Refused(Reason.SOURCE, self._why_not(f"the source {which}".rstrip(), source, subject))

    def _why_not(self, what: str, source: str, subject: str) -> str:
        if source not in self._rule:
            return f"{what} {source!r} is none of those that `sources` of the consumer's settings names"
        named = ", ".join(self._rule[source])
        return f"{what} {source!r} may speak on {named} alone, by `sources` of the settings; this came on {subject}"

"""What an operator is told to do about a stream that is not the one that was read so far."""

from __future__ import annotations

from projectionist.core.states import Fact

_ADOPT = "`projectionist adopt {name} --reason …`"
_REMEDIES = {
    Fact.STREAM_REPLACED: f"If the new stream is to be read, {_ADOPT}; otherwise restore the old one",
    Fact.STREAM_REGRESSED: f"Restore the stream if you can; {_ADOPT} goes on without what it lost",
    Fact.STREAM_COPIED: f"If the copy is to be read from now on, {_ADOPT}",
    Fact.STREAM_PURGED: f"Missing versions show as gaps; {_ADOPT} closes this once it is dealt with",
}


def remedy(fact: Fact, consumer: str) -> str:
    """The next step, in one sentence."""
    return _REMEDIES[fact].format(name=consumer)

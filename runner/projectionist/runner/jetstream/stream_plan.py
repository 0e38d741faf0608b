"""What a declared stream lacks at the broker, and what differs there and is left to a person. Pure.

Nothing is shrunk, removed or deleted: whatever a stream would forget by a change is somebody's decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.nats.subject_relations import covers, mapped, overlap
from projectionist.runner.jetstream.api import StreamConfig
from projectionist.runner.jetstream.durable import forgets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from projectionist.projections.stream import Stream

NANO = 1e9
WINDOW_S = 120.0
"""How long a new stream knows a message id: a publish without an answer is repeated for less."""


class StreamDifference(msgspec.Struct, frozen=True):
    """What is not as declared, and is not changed."""

    found: str
    mend: str


class StreamPlan(msgspec.Struct, frozen=True):
    """The work of `migrate --streams` for one stream."""

    stream: str
    what: str = ""
    """`create` or `update`; empty: nothing is to be done."""
    config: dict[str, Any] = {}
    """What is set, in JetStream's words."""
    changes: tuple[str, ...] = ()
    """The same for people."""
    differences: tuple[StreamDifference, ...] = ()
    notes: tuple[str, ...] = ()

    def resulting(self, found: StreamConfig | None) -> StreamConfig:
        """Return what decides over retention once this is done."""
        known = msgspec.to_builtins(found or StreamConfig())
        return msgspec.convert(known | self.config, StreamConfig)


def plan(stream: Stream, found: StreamConfig | None, takers: Mapping[str, Sequence[str]]) -> StreamPlan:
    """Compare a declared stream with the broker's. `takers`: the other streams that take one of its subjects."""
    taken = [
        StreamDifference(
            f"{subject} is taken by stream {', '.join(others)}",
            f"Take it off there, or declare that stream by its own name: nats stream edit {others[0]}",
        )
        for subject, others in takers.items()
        if others
    ]
    if found is None:
        return StreamPlan(stream=stream.name, differences=tuple(taken)) if taken else _created(stream)
    if found.mirror is not None:
        whose = f"it is a mirror of {found.mirror.name} and takes no publish of its own"
        return StreamPlan(
            stream=stream.name,
            differences=(StreamDifference(whose, f"Declare {found.mirror.name} in its place"),),
        )
    config, changes, shrinks = _sizes(stream, found)
    refused = [*taken, *_crossing(stream, found)]
    lacking = [one for one in stream.filters if not any(covers(has, one) for has in found.subjects or ())]
    if lacking and not refused:
        stay = [has for has in found.subjects or () if not any(covers(one, has) for one in lacking)]
        config["subjects"] = [*stay, *lacking]
        changes.insert(0, f"takes {', '.join(lacking)}")
    differences = (*refused, *_unfit(stream, found), *shrinks)
    if not config:
        return StreamPlan(stream=stream.name, differences=differences)
    return StreamPlan(
        stream=stream.name,
        what="update",
        config=config,
        changes=tuple(changes),
        differences=differences,
        notes=tuple(_limits(stream)),
    )


def _created(stream: Stream) -> StreamPlan:
    config: dict[str, Any] = {
        "name": stream.name,
        "subjects": list(stream.filters),
        "retention": "limits",
        "storage": "file",
        "num_replicas": stream.replicas or 1,
        "duplicate_window": _nanos(min(WINDOW_S, stream.max_age_s or WINDOW_S)),
        # Events that nobody has read yet are not dropped for room: producers wait, and keep what they have.
        "discard": "new" if stream.max_bytes else "old",
    }
    config |= {name: value for name, _, value, _ in _declared(stream)}
    changes = (
        f"takes {', '.join(stream.filters)}",
        *(f"{word} = {says}" for _, word, _, says in _declared(stream)),
    )
    return StreamPlan(
        stream=stream.name, what="create", config=config, changes=changes, notes=tuple(_limits(stream))
    )


def _declared(stream: Stream) -> Iterator[tuple[str, str, int, str]]:
    """Return the sizes that are declared: JetStream's name, ours, the value there, and for people."""
    sizes = {"num_replicas": ("replicas", stream.replicas), "max_bytes": ("max_bytes", stream.max_bytes)}
    for name, (word, count) in sizes.items():
        if count is not None:
            yield name, word, count, f"{count}"
    lengths = {
        "max_age": ("max_age_s", stream.max_age_s),
        "duplicate_window": ("duplicate_window_s", stream.duplicate_window_s),
    }
    for name, (word, seconds) in lengths.items():
        if seconds is not None:
            yield name, word, _nanos(seconds), f"{seconds:g}"


def _sizes(stream: Stream, found: StreamConfig) -> tuple[dict[str, Any], list[str], list[StreamDifference]]:
    """Return what grows, and what would shrink."""
    config: dict[str, Any] = {}
    changes: list[str] = []
    differences: list[StreamDifference] = []
    for name, word, value, says in _declared(stream):
        there = getattr(found, name)
        endless = name in ("max_age", "max_bytes") and there <= 0
        shown = "without limit" if endless else f"{there / NANO:g}" if word.endswith("_s") else f"{there}"
        if endless or value < there:
            differences.append(
                StreamDifference(
                    f"{word} is {shown} and declared as {says}: it is never lowered here",
                    f"Declare what is there, or lower it yourself: {_edit(stream, name, value)}",
                )
            )
        elif value > there:
            config[name] = value
            changes.append(f"{word} = {says} instead of {shown}")
    return config, changes, differences


def _edit(stream: Stream, name: str, value: int) -> str:
    flag = {
        "num_replicas": f"--replicas {value}",
        "max_bytes": f"--max-bytes {value}",
        "max_age": f"--max-age {value / NANO:g}s",
        "duplicate_window": f"--dupe-window {value / NANO:g}s",
    }[name]
    return f"nats stream edit {stream.name} {flag}"


def _crossing(stream: Stream, found: StreamConfig) -> Iterator[StreamDifference]:
    """Return subjects of the stream that overlap a declared one without either holding the other."""
    for mine in stream.filters:
        for has in found.subjects or ():
            if overlap(has, mine) and not covers(has, mine) and not covers(mine, has):
                yield StreamDifference(
                    f"it takes {has}, which overlaps the declared {mine}",
                    f"Declare a subject that holds both, or change it: nats stream edit {stream.name} --subjects …",
                )


def _unfit(stream: Stream, found: StreamConfig) -> Iterator[StreamDifference]:
    edit = f"nats stream edit {stream.name}"
    if found.retention != "limits":
        yield StreamDifference(
            f"it has retention {found.retention}, which removes what others have acked",
            f"{edit} --retention limits; a work queue cannot become one: declare a stream of another name, and copy",
        )
    for fault in forgets(found):
        yield StreamDifference(f"it {fault}", f"Consumers in order need every event: {edit}")
    if stream.max_bytes and found.discard != "new":
        yield StreamDifference("a full stream drops the oldest events, read or not", f"{edit} --discard new")
    template, transform = stream.pattern.filter, found.subject_transform
    if transform is not None and overlap(transform.src or ">", template):
        stored = mapped(template, transform.src or ">", transform.dest)
        if stored != template:
            yield StreamDifference(
                f"what is published as {template} is stored as {stored}",
                "Take the transform off; or declare the stream without events=, and have consumers name what is stored",
            )


def _limits(stream: Stream) -> Iterator[str]:
    if stream.max_age_s:
        yield (
            f"an event goes after {stream.max_age_s:g} s, applied or not: "
            "a consumer that is away for longer misses it, "
            "and no rebuild reads it again (docs/operations/lost-history.md)"
        )
    if stream.max_bytes:
        yield f"beyond {stream.max_bytes:,} bytes the stream refuses events: the outbox keeps them and tries again"


def _nanos(seconds: float) -> int:
    return round(seconds * NANO)

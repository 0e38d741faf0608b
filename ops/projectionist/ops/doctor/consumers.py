"""Checks consumers: what waits for a person, which code is run, and whether a purged event can come back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.ops.doctor.check import Check, attention, note, well
from projectionist.runner.consumers.header_mapping import disagreement, mapping, unified
from projectionist.runner.retention.safety import kept_s, remedy, unsafe

LOOK = "The reason says what; the log of the process, where"

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.batch.lookup_reader import LookupUnavailable
    from projectionist.runner.consumers.status import SetbackStatus
    from projectionist.runner.jetstream.api import StreamInfo


def registered(
    definition: ConsumerDefinition,
    row: Row | None,
    views: Mapping[str, Row],
    settings: Settings,
    found: StreamInfo | None,
) -> Iterator[Check]:
    """Check one consumer of the app; `views` are those that the database knows, by name."""
    name = definition.name
    if row is None:
        yield attention(name, "registered", "it is not in the database yet", "projectionist migrate")
        return
    for view in definition.views:
        yield from _view(view, views.get(view.name))
    if definition.unfollowed:
        yield note(
            name,
            "code",
            f"a change of {'; '.join(definition.unfollowed)} is not noticed as new code",
            "Raise revision= when it changes what events do, or name it by a constant of the module",
        )
    yield from _waiting(name, row)
    yield from _processes(name, row)
    yield from _settings(definition, row, settings, found)


def _settings(
    definition: ConsumerDefinition, row: Row, settings: Settings, found: StreamInfo | None
) -> Iterator[Check]:
    name, policy = definition.name, settings.policy(definition.name)
    read = msgspec.json.decode(row["headers"], type=list[tuple[str, dict[str, str]]])
    if difference := disagreement([*read, ("the settings here", mapping(policy.headers))]):
        yield attention(name, "headers", difference, unified(name))
    if found is not None and (why := unsafe(policy, definition.sequence, found.config)):
        yield attention(name, "retention", why, remedy(name, found.config))
    else:
        kept = kept_s(policy, definition.sequence)
        yield well(name, "retention", "for ever" if kept is None else f"{kept / 86_400:g} days")
    if policy.legal_hold or settings.retention.legal_hold:
        yield note(name, "legal hold", "nothing of it is removed")
    if policy.ack == "after-store" and not settings.telemetry.monitored:
        yield attention(
            name,
            "monitored",
            "it acks what it has only stored, and its backlog raises no alert",
            "Set exporter or endpoint of [telemetry]",
        )


def lookups(definition: Definition, refused: LookupUnavailable | None) -> Iterator[Check]:
    """Check that the tables its handlers look up can be read by this role."""
    if refused is not None:
        yield attention(definition.name, "lookups", refused.message, refused.remedy)
    elif definition.references or definition.looks_up:
        tables = [one.table.public for one in definition.references]
        views = [one.full_name for one in definition.looks_up]
        yield well(definition.name, "lookups", ", ".join((*tables, *views)))


def strangers(
    rows: Sequence[Row], definitions: Sequence[ConsumerDefinition], known: Mapping[str, object]
) -> Iterator[Check]:
    """Check consumers that the database knows and the app does not. `known`: the app's providers."""
    ours = {one.name for one in definitions} | {name for one in definitions for name in one.formerly}
    for row in rows:
        if row["name"] not in ours:
            yield note(
                row["name"],
                "app",
                "the database knows it, this app does not: its inbox is not purged",
                f"If no app has it any more: projectionist retire {row['name']} --reason …",
            )
            if shared := sorted(set(row["providers"]) & known.keys()):
                yield note(
                    row["name"],
                    "providers",
                    f"this app's relay sends its intents for {', '.join(shared)}",
                    "If it is another app's, and means something else by that name: rename one, or give it a schema",
                )


def setback(one: SetbackStatus) -> Check:
    """Return the check about what a living process cannot do."""
    about, found = one.consumer or "processes", f"it {one.about}: {one.reason}"
    if one.needs_somebody:
        return attention(about, "setback", found, one.remedy or LOOK)
    return note(about, "setback", found, one.remedy)


def providers(definition: ConsumerDefinition, known: Mapping[str, object]) -> Iterator[Check]:
    """Check that a relay can carry out its intents."""
    if lacking := definition.lacking(known):
        yield attention(
            definition.name,
            "providers",
            f"its intents are for {', '.join(lacking)}, which the app lacks",
            "App(providers={…}): until then they are held",
        )


def versioned(known: Mapping[str, object]) -> list[str]:
    """Return the app's providers that publish events, which need a version."""
    return sorted(name for name, provider in known.items() if getattr(provider, "versioned", False))


def unversioned(row: Row) -> Check:
    """Check events that a producer has written, and that the relay will refuse."""
    return attention(
        "outbox",
        "versions",
        f"{row['n']:,} events for {row['provider']} lack their aggregate or version",
        "Give Outbox.add(aggregate='order/7', version=3), or a provider class with versioned = False",
    )


def refused(row: Row) -> Check:
    """Check for staged intents that no relay could open."""
    return attention(
        row["name"],
        "staged intents",
        f"{row['n']:,} intents could not be opened: {row['refused']}",
        "The next relay that starts tries them again: deploy one that can, or report it",
    )


def _view(view: Definition, row: Row | None) -> Iterator[Check]:
    name = view.full_name
    if row is None or row["state"] == "retired":
        yield attention(name, "registered", "it is not in the database yet", "projectionist migrate")
        return
    if row["state"] == "joining":
        yield note(
            name,
            "state",
            "it is not there yet",
            f"processes that run and list it build it, and it joins; where none does: projectionist rebuild APP {name}",
        )
    elif row["state"] == "detached":
        yield attention(
            name,
            "state",
            "it is left out: its rows stay as they are",
            f"projectionist views attach {name} --reason …, when it may join again",
        )
    else:
        yield from _code(view, row)
    if view.below_shared:
        yield note(
            name,
            "rows",
            f"{', '.join(view.below_shared)} takes the rows that are there: one that another aggregate makes at "
            "the same moment may be left out, and a rebuild may differ",
            "Make rows= the aggregate's own, or let a later event repeat it",
        )


def _code(definition: Definition, row: Row) -> Iterator[Check]:
    name = definition.full_name
    if definition.revision > row["revision"]:
        yield note(
            name, "code", f"revision {definition.revision} is to be built", "projectionist run builds it"
        )
    elif definition.revision < row["revision"]:
        yield attention(
            name,
            "code",
            f"revision {row['revision']} runs, this is {definition.revision}",
            "Deploy the newer code",
        )
    elif definition.shape != row["shape"]:
        yield attention(
            name, "code", "its table has another shape than its class", "projectionist migrate --plan"
        )
    elif definition.code == row["code"]:
        yield well(name, "code", f"revision {row['revision']}, the code that runs is this one")
    elif row["was_here"]:
        yield attention(
            name,
            "code",
            "newer code has taken over; this one would not start",
            "Deploy the newer code, or go back on purpose with `projectionist run --allow-older-code`",
        )
    else:
        yield note(name, "code", "this code is newer than the one that runs; the next start takes it up")


def _waiting(name: str, row: Row) -> Iterator[Check]:
    stopped = row["stopped"] + row["alone"]
    for count, what, mend in (
        (stopped, "failed or wait for an operator", f"projectionist parked list --consumer {name}"),
        (row["quarantined"], "are in quarantine", f"projectionist quarantine list --consumer {name}"),
        (row["incidents"], "are open incidents", f"projectionist incidents list --consumer {name}"),
        (
            row["undelivered"],
            "are intents that are dead, held or unclear",
            f"projectionist outbox list --consumer {name}",
        ),
    ):
        if count:
            yield attention(name, "stuck", f"{count:,} {what}", mend)
    if row["breaker"]:
        yield attention(
            name,
            "breaker",
            row["breaker"],
            f"projectionist breaker reset {name} --reason …, once it is mended",
        )
    if row["paused"]:
        yield attention(name, "paused", "an operator has paused it", f"projectionist resume {name}")
    if row["building"]:
        yield note(
            name,
            "build",
            "a rebuild is open; retention waits for it",
            f"projectionist rebuild {name} goes on with it",
        )


def silent(rows: Sequence[Row]) -> Iterator[Check]:
    """Name processes that have stopped beating, each once, whatever it ran."""
    ran: dict[str, list[str]] = {}
    for row in rows:
        for process in row["silent"]:
            ran.setdefault(process, []).append(row["name"])
    for process, names in sorted(ran.items()):
        yield attention(
            "processes",
            process,
            f"it crashed, or hangs; it ran {', '.join(names)}",
            "Look at the process; if it is gone, its work is taken over and this goes after a day",
        )


def _processes(name: str, row: Row) -> Iterator[Check]:
    if row["running"]:
        yield well(name, "processes", f"{row['running']} running")
    elif row["breaker"]:
        yield note(name, "processes", "nothing of it is fetched while its breaker lets nothing through")
    elif not row["paused"]:
        yield attention(name, "processes", "no process runs it now", "projectionist run")

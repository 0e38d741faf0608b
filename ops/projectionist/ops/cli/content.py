"""Content (payloads, texts of errors, values of headers and rows, destinations) is shown on record, or not at all."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from projectionist.core.digest import short_destination, stand_in

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.preview.check_result import StreamCheck
    from projectionist.runner.rebuild.table_pairs import Difference
    from projectionist.runner.verify.verify import RowDrift

HIDDEN = "***"


async def reveal(
    connection: Connection, schema: str, things: Iterable[str], args: argparse.Namespace
) -> None:
    """Put on record that these things are shown to the operator of `args`, before they are."""
    from projectionist.core.operator import Act  # noqa: PLC0415  loaded where it is needed
    from projectionist.runner.admin.reveal import record_reveal  # noqa: PLC0415

    await record_reveal(connection, schema, things, Act(args.actor, args.reason))


def without_content(intent: Mapping[str, Any], outcome: str = "") -> dict[str, Any]:
    """Return an intent or an attempt without its content: a digest for each text, a host for a destination.

    `outcome` is what is known of the error's class.
    """
    row = {name: value for name, value in intent.items() if name != "excerpt"}
    for name in ("error", "reason"):
        if row.get(name):
            row[name] = stand_in(row[name], outcome)
    if row.get("destination"):
        row["destination"] = short_destination(row["destination"])
    return row


def without_answer(incident: Mapping[str, Any]) -> dict[str, Any]:
    """Return an incident in which a digest stands for what a provider has answered."""
    if of_provider(incident["kind"]):
        return {**incident, "detail": stand_in(incident["detail"])}
    return dict(incident)


def why_parked(row: Mapping[str, Any], failure: str) -> str:
    """Return why an event waits, without the text of its error: the class and place stand for it, and a digest."""
    why: str = row["why"]
    failed = row["cause"] == "failed" and not why.startswith("discarded: ")
    return stand_in(why, failure) if failed else why


def leave_texts_out(check: StreamCheck) -> None:
    """Have a digest stand for each text behind its class: what was raised may quote a payload."""
    for consumer in check.consumers:
        for kinds in (consumer.unreadable, *(each.troubles for each in consumer.types)):
            kinds.listed = [
                replace(each, text=stand_in(each.text, each.text.partition(":")[0])) for each in kinds.listed
            ]


def of_provider(incident: str | None) -> bool:
    """Return whether an incident of this kind tells in its detail what a provider has answered."""
    return incident is not None and incident.startswith("intent")


def without_values(drift: RowDrift) -> RowDrift:
    """Return a differing row with the names of its columns alone."""
    return replace(drift, live=hidden(drift.live), folded=hidden(drift.folded))


def without_row(difference: Difference) -> Difference:
    """Return the same of a rebuilt row; a row without a key is its values."""
    key = difference.key if difference.keyed else stand_in(difference.key)
    live, rebuilt = hidden(difference.live), hidden(difference.rebuilt)
    return replace(difference, key=key, live=live, rebuilt=rebuilt, keyed=True)


def hidden(row: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Return the columns of a row without their values."""
    return None if row is None else dict.fromkeys(row, HIDDEN)


def values_of(row: Mapping[str, object] | None) -> str:
    """Return columns of a row for people."""
    if row is None:
        return "no row"
    return ", ".join(name if value == HIDDEN else f"{name}={value!r}" for name, value in row.items())

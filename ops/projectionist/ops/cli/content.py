"""Content (payloads, texts of errors, values of headers and rows, destinations) is shown on record, or not at all."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from projectionist.core.digest import short_destination, stand_in

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.admin.event_history import Journey, Passage, SideRecord
    from projectionist.runner.preview.check_result import StreamCheck
    from projectionist.runner.rebuild.table_pairs import Difference
    from projectionist.runner.verify.verify import RowDrift

HIDDEN = "***"
_OF_FAILURE = ("error", "problem", "stack")


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


def masked_journey(journey: Journey) -> Journey:
    """Return a journey in which a digest stands for each text that may be content."""

    def passage(one: Passage) -> Passage:
        parked = None if one.parked is None else dict(one.parked)
        if parked is not None and parked.pop("error") is not None:
            parked["why"] = stand_in(parked["why"], parked["error_class"] or "")
        beside = [
            replace(each, why=stand_in(each.why)) if each.why and _quotes(each) else each
            for each in one.beside
        ]
        intents = list(map(_masked_intent, one.intents))
        return replace(one, parked=parked, beside=beside, intents=intents)

    return replace(journey, consumers=list(map(passage, journey.consumers)))


def _masked_intent(intent: Mapping[str, Any]) -> dict[str, Any]:
    shown = without_content(intent)
    if "attempts" in intent:  # which an intent in brief has not
        shown["attempts"] = list(map(without_content, intent["attempts"]))
    return shown


def _quotes(one: SideRecord) -> bool:
    """Return whether a record quotes what was found or answered; of a decision it is an operator's reason."""
    return one.kind == "quarantine" or (one.kind == "incident" and of_provider(one.what))


def quarantined_entry(row: dict[str, Any], *, revealed: bool) -> dict[str, Any]:
    """Return one entry for the reader: its headers as text, of which the names alone are no content."""
    data, headers = row.pop("data"), row.pop("headers")
    row["reference"] = data is None and headers is None
    row["consumer"] = row.pop("name")
    row["hash"] = bytes(row["hash"]).hex()
    row["headers"] = [
        line for line in bytes(headers or b"").decode("utf-8", "backslashreplace").split("\r\n")[1:] if line
    ]
    if revealed:
        row["data"] = bytes(data or b"").decode("utf-8", "backslashreplace")
    else:
        row["detail"] = stand_in(row["detail"])
        row["headers"] = [line.partition(":")[0] for line in row["headers"]]
    return row


def parked_event(
    row: dict[str, Any], failures: Mapping[tuple[str, str, str], str], *, revealed: bool
) -> dict[str, Any]:
    """Return one event for the reader: hashes as hex, no content unless it is asked for."""
    data, key = row.pop("data"), (row["name"], row["source"], row["id"])
    if not revealed:
        row["why"] = why_parked(row, failures.get(key, ""))
    del row["consumer"]
    row["consumer"] = row.pop("name")
    row["hash"], edited = bytes(row["hash"]).hex(), row["edited_hash"]
    row["edited_hash"] = None if edited is None else bytes(edited).hex()
    row["size"] = None if data is None else len(data)
    if revealed:
        row["data"] = None if data is None else bytes(data).decode("utf-8", "backslashreplace")
        return row
    return {name: value for name, value in row.items() if name not in _OF_FAILURE}


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

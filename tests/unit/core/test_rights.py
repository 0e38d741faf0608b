"""The rights of each duty, against what the statements of its rooms do with our tables."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from projectionist.core.postgres.rights import TABLE_RIGHTS, Duty, of_roles, wanted

ROOT = Path(__file__).parents[3]
RUNNER, OUTBOX = "runner/projectionist/runner", "outbox/projectionist/outbox"
_BOTH = ("runner/projectionist/core/postgres", f"{OUTBOX}/intents")
_LIVE = (
    *(
        "batch",
        "consumers",
        "failures",
        "gaps",
        "pipeline",
        "process",
        "retention",
        "stream_guard",
        "telemetry",
    ),
    "verify",
)
ROOMS = {
    Duty.RUNNER: (
        *(f"{RUNNER}/{room}" for room in _LIVE),
        *_BOTH,
        *(f"{RUNNER}/operations/sql/{verb}_long_act.sql" for verb in ("insert", "beat")),
    ),
    Duty.RELAY: (f"{OUTBOX}/relay", *_BOTH),
    Duty.OPERATOR: (
        *(
            f"{RUNNER}/{room}"
            for room in ("admin", "failures", "gaps", "operations", "process", "stream_guard")
        ),
        *(f"{OUTBOX}/admin", *_BOTH),
        f"{RUNNER}/batch/sql/add_outcome_counts.sql",  # a skip counts like a batch
    ),
    Duty.RECORDER: (f"{OUTBOX}/recording", f"{OUTBOX}/intents"),
}
LEFT = {
    Duty.RUNNER: {
        *("consumers insert", "views insert"),  # by migrate
        "decisions update",  # the owner's purge
        *(f"{table} delete" for table in ("audit", "audit_chain")),  # the owner's purge
        *("roles insert", "roles delete"),  # by `projectionist roles`
    },
    Duty.RELAY: {"roles insert", "roles delete", "audit insert"},
    Duty.RECORDER: {
        "staged_intents update",
        "staged_intents delete",
        "incidents insert",
        "cancels insert",
    },  # it unpacks nothing
}
"""What statements in these rooms do for another duty."""


def writes(rooms: tuple[str, ...]) -> set[str]:
    """Return what the statements of these rooms, or of these files, write, as "table privilege"."""
    found: dict[str, set[str]] = defaultdict(set)
    for room in rooms:
        at = ROOT / room
        for file in [at] if at.is_file() else (at / "sql").glob("*.sql"):
            text = re.sub(r"--.*", "", file.read_text("utf-8"))
            for table in re.findall(r"insert into \{schema\}\.(\w+)", text):
                found[table] |= {"insert", "update"} if "do update" in text else {"insert"}
            for table in re.findall(r"update \{schema\}\.(\w+)", text):
                found[table].add("update")
            for table in re.findall(r"delete from \{schema\}\.(\w+)", text):
                found[table].add("delete")
            if re.search(r"for (no key )?(update|share)", text):
                for table in re.findall(r"(?:from|join) \{schema\}\.(\w+)", text):
                    found[table].add("update")
    return {f"{table} {word}" for table, words in found.items() for word in words}


def granted(duty: Duty) -> set[str]:
    """Return what a duty may write, in the same form."""
    rights = [right for right in wanted("r", [duty]) if right.kind == "table"]
    return {f"{right.name} {right.privilege}" for right in rights if right.privilege != "select"}


@pytest.mark.parametrize("duty", ROOMS)
def test_no_duty_may_write_what_no_statement_of_its_rooms_writes(duty: Duty) -> None:
    assert granted(duty) - writes(ROOMS[duty]) == set()


@pytest.mark.parametrize("duty", LEFT)
def test_each_duty_may_write_what_the_statements_of_its_rooms_write(duty: Duty) -> None:
    assert writes(ROOMS[duty]) - granted(duty) == LEFT[duty]


def test_an_observer_and_a_reader_write_nothing() -> None:
    assert granted(Duty.OBSERVER) == granted(Duty.READER) == set()
    assert set(TABLE_RIGHTS[Duty.READER]) == set()


def test_only_the_owner_may_take_an_act_away() -> None:
    changes = {
        "audit update",
        "audit delete",
        "audit_chain insert",
        "audit_chain delete",
        "audit_head update",
    }
    assert not any(granted(duty) & changes for duty in ROOMS)


def test_a_role_with_two_duties_wants_the_rights_of_both() -> None:
    both = of_roles({Duty.RELAY: ["r"], Duty.READER: ["r"]})
    assert both == sorted({*wanted("r", [Duty.RELAY]), *wanted("r", [Duty.READER])})

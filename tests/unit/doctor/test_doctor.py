"""What rows of a database mean to the doctor: cases that a healthy server does not show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from projectionist.ops.doctor import consumers, database
from projectionist.ops.doctor.check import Check

SERVER: dict[str, Any] = {
    "version": "18.1", "number": 180001, "fsync": "on", "full_page_writes": "on", "of_database": [],
    "synchronous_commit": "on", "autovacuum": "on", "track_counts": "on", "standby": False, "backend": 7,
    "encrypted": True, "synchronous_standby_names": "", "followers": 0,
    "free": 90, "connections": 100, "bytes": 10**9, "remote": True, "oldest_idle_s": 0.0,
    "silent_standbys": [], "hidden": 0,
}  # fmt: skip
TABLE: dict[str, Any] = {
    "name": "inbox", "live": 1000, "dead": 10, "swept": None, "bytes": 10**6, "hit": 10, "read": 0,
    "unswept": False, "idle_indexes": [],
}  # fmt: skip


def loud(checks: list[Check]) -> list[tuple[str, str]]:
    return [(check.name, check.level) for check in checks if check.level != "well"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, []),
        ({"number": 130002}, [("version", "attention")]),
        ({"standby": True}, [("standby", "attention")]),
        ({"fsync": "off"}, [("fsync", "note")]),
        ({"of_database": ["synchronous_commit=off", "work_mem=1GB"]}, [("synchronous_commit", "attention")]),
        ({"followers": 1}, [("failover", "note")]),
        ({"followers": 1, "synchronous_standby_names": "b"}, []),
        (
            {"followers": 1, "synchronous_standby_names": "b", "synchronous_commit": "local"},
            [("failover", "note")],
        ),
        (
            {"followers": 1, "synchronous_standby_names": "b", "of_database": ["synchronous_commit=local"]},
            [("failover", "note")],
        ),
        ({"track_counts": "off"}, [("autovacuum", "attention")]),
        ({"oldest_idle_s": 300.0}, [("idle transaction", "attention")]),
    ],
)
def test_a_server(given: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert loud(list(database._server(SERVER | given))) == found


@pytest.mark.parametrize(
    ("given", "unseen", "found"),
    [
        ({}, False, []),
        ({"silent_standbys": ["west"]}, False, [("readers", "attention")]),
        ({"silent_standbys": ["west"]}, True, [("readers", "note")]),
        ({"hidden": 3}, False, [("sessions", "note")]),
    ],
)
def test_readers_that_a_rebuild_cannot_see(
    given: dict[str, Any], unseen: bool, found: list[tuple[str, str]]
) -> None:
    assert loud(list(database._readers(SERVER | given, unseen))) == found


def test_a_pooler_in_between_has_to_have_room_for_all_sessions() -> None:
    assert loud(list(database._connections(SERVER, 2, pooled=False))) == []
    assert loud(list(database._connections(SERVER, 2, pooled=True))) == [("pooler", "note")]
    lent = database._connections(SERVER | {"free": 6}, 2, pooled=False, lent=True)
    assert loud(list(lent)) == []


def test_a_process_has_to_find_its_connections_free() -> None:
    assert loud(list(database._connections(SERVER | {"free": 9}, 2, pooled=False))) == [
        ("connections", "attention")
    ]


def test_clocks_may_differ_a_little() -> None:
    assert database.clock(1.0, "postgres").level == "well"
    assert database.clock(-3.0, "postgres").found == "its clock and the one here differ by 3.0 s"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, []),
        ({"unswept": True}, [("inbox", "attention")]),
        ({"dead": 200_000}, [("inbox", "attention")]),
        ({"dead": 200_000, "live": 10**7}, []),
        ({"hit": 10**6, "read": 10**6}, [("inbox", "note")]),
        ({"idle_indexes": ["inbox_version"]}, [("inbox", "note")]),
    ],
)
def test_a_table(given: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert loud(list(database._tables([TABLE | given]))) == found
    swept = TABLE | {"dead": 200_000, "swept": datetime(2026, 1, 2, tzinfo=UTC)}
    assert "last swept: 2026-01-02" in next(database._tables([swept])).found


def test_intents_of_another_app_for_a_provider_of_the_same_name_are_told() -> None:
    rows: Any = [{"name": "Theirs", "providers": ["email", "sms"]}, {"name": "Gone", "providers": ["push"]}]
    checks = list(consumers.strangers(rows, [], {"email": object(), "hooks": object()}))
    assert [(check.about, check.name) for check in checks if check.name == "providers"] == [
        ("Theirs", "providers")
    ]
    assert "for email" in next(check.found for check in checks if check.name == "providers")

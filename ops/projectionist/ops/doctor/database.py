"""PostgreSQL: can a commit be trusted, is there room, and are our tables swept. Pure but for `look`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from projectionist.core.postgres.database_identity import ADOPT, Likeness, likeness, place
from projectionist.core.postgres.lock_probe import LockShared, refuse_weak_locks
from projectionist.core.postgres.sessions import is_pooled
from projectionist.core.postgres.statements import Statements
from projectionist.core.server_versions import LEAST_POSTGRES
from projectionist.ops.doctor.check import Check, attention, note, well

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.core.postgres.database_identity import Owner
    from projectionist.core.settings.settings import Postgres, Settings

SKEW_S = 2.0
SHARED = 4
"""Connections of a process beside those of its consumers."""
EACH = 3
BATCHES = 2
"""Of these: one for each batch that is open at once, which a pooler may lend."""
DEAD_SHARE, DEAD_LEAST = 0.2, 100_000
HIT_SHARE, HIT_LEAST = 0.9, 1_000_000
IDLE_S = 60.0
GIGABYTE = 1e9

ABOUT = "postgres"


async def look(connection: Connection, settings: Settings, consumers: int) -> list[Check]:
    """Check everything about the database behind this connection."""
    statements = Statements("projectionist.ops", settings.postgres.schema)
    asked = datetime.now(UTC)
    server = await connection.fetchrow(statements["select_server_settings"])
    assert server is not None, "one row, always"
    skew = (server["now"] - (asked + (datetime.now(UTC) - asked) / 2)).total_seconds()
    tables = await connection.fetch(statements["select_table_sizes"], settings.postgres.schema)
    return [
        *_server(server),
        *_readers(server, settings.postgres.unseen_readers),
        *_connections(
            server, consumers, pooled=is_pooled(connection), lent=settings.postgres.direct_url is not None
        ),
        _clock(skew, ABOUT),
        *_tables(tables),
    ]


async def locks(postgres: Postgres, connection: Connection) -> list[Check]:
    """Check, by trying, that a lock keeps others out: not every engine that answers like PostgreSQL has real ones."""
    try:
        await refuse_weak_locks(connection, postgres)
    except LockShared as error:
        return [attention(ABOUT, "locks", error.message, error.remedy)]
    return []


async def home(connection: Connection, schema: str, recorded: Owner | None) -> list[Check]:
    """Check that this is the database that the schema was at home in at the last run."""
    here = await place(connection, Statements("projectionist.core", schema))
    if recorded is None or here is None:
        return []
    if likeness(recorded.place, here) is Likeness.OTHER:
        found = f"this is a copy of {recorded.place}: runners and relays wait"
        return [attention(ABOUT, "owner", found, f"If it is the real one, {ADOPT}")]
    return [well(ABOUT, "owner", f"the schema is at home in {here}")]


def _server(row: Row) -> Iterator[Check]:
    shown = f"PostgreSQL {row['version']}, {row['bytes'] / GIGABYTE:.1f} GB, {'TLS' if row['encrypted'] else 'no TLS'}"
    if row["number"] // 10_000 < LEAST_POSTGRES:
        yield attention(
            ABOUT,
            "version",
            f"{shown}: older than {LEAST_POSTGRES}",
            f"Upgrade PostgreSQL to {LEAST_POSTGRES} or later",
        )
    else:
        yield well(ABOUT, "version", shown)
    if row["standby"]:
        yield attention(
            ABOUT,
            "standby",
            "this server is a standby and takes no writes",
            "Point postgres.url to the primary",
        )
    yield from _durability(row)
    yield from _upkeep(row)


def _durability(row: Row) -> Iterator[Check]:
    for name in ("fsync", "full_page_writes"):
        if row[name] != "on":
            mend = f"Set {name} = on; off is for throw-away servers alone"
            yield note(
                ABOUT, name, f"{name} is {row[name]}: a crash of the machine may damage the database", mend
            )
    preferences = dict(one.split("=", 1) for one in row["of_database"])
    if "off" in (row["synchronous_commit"], preferences.get("synchronous_commit")):
        yield attention(
            ABOUT,
            "synchronous_commit",
            "the database prefers commits that a crash may take back",
            "Set synchronous_commit = on: batches insist on it by themselves, your own producers' transactions do not",
        )
    yield from _standbys(row, preferences.get("synchronous_commit", row["synchronous_commit"]))


def _upkeep(row: Row) -> Iterator[Check]:
    if "off" in (row["autovacuum"], row["track_counts"]):
        yield attention(
            ABOUT,
            "autovacuum",
            "autovacuum is off: tables will only grow",
            "Set autovacuum = on and track_counts = on",
        )
    if row["oldest_idle_s"] > IDLE_S:
        yield attention(
            ABOUT,
            "idle transaction",
            f"a session has been idle in a transaction for {row['oldest_idle_s']:.0f} s",
            "End it: while it is open no dead row can be swept (pg_stat_activity names it)",
        )


def _standbys(row: Row, commit: str) -> Iterator[Check]:
    """Check that a standby that takes this server's place has what was committed here."""
    waited_for = row["synchronous_standby_names"] and commit not in ("off", "local")
    if waited_for:
        yield well(ABOUT, "failover", "commits wait for a standby")
    elif row["followers"]:
        why = (
            f"synchronous_commit is {commit}"
            if row["synchronous_standby_names"]
            else "no commit waits for it"
        )
        yield note(
            ABOUT,
            "failover",
            f"a standby follows, and {why}: promoted, it may lack the last commits",
            "Set synchronous_standby_names, or know what is read and asked again then (docs/guarantees.md, Limits)",
        )


def _readers(row: Row, unseen: bool) -> Iterator[Check]:
    """Check that a rebuild can see those who would find its new generation empty."""
    if row["silent_standbys"]:
        names = ", ".join(map(repr, row["silent_standbys"]))
        found = f"standby {names} does not say what its readers see: " + (
            "rebuilds swap all the same (unseen_readers)" if unseen else "rebuilds do not swap"
        )
        mend = (
            "Set hot_standby_feedback = on there; unseen_readers = true where nobody reads read models on it"
        )
        yield note(ABOUT, "readers", found, mend) if unseen else attention(ABOUT, "readers", found, mend)
    if row["hidden"]:
        yield note(
            ABOUT,
            "sessions",
            f"since when {row['hidden']} sessions of other roles are in a transaction is hidden",
            "grant pg_read_all_stats to the role of these commands",
        )


def _connections(row: Row, consumers: int, *, pooled: bool, lent: bool = False) -> Iterator[Check]:
    need = SHARED + (EACH - BATCHES if lent else EACH) * consumers
    if pooled:
        yield note(
            ABOUT,
            "pooler",
            "a pooler in session mode stands between, and has a session for each of ours",
            f"Its pool has to hold {need} sessions a process (pgbouncer: default_pool_size), or some wait for ever",
        )
    beside = " beside the pooler's" if lent else ""
    found = f"{row['free']} of {row['connections']} connections are free, a process of this app takes up to {need}"
    found += beside
    if row["free"] < need:
        yield attention(
            ABOUT, "connections", found, "Raise max_connections, or run fewer consumers a process with --only"
        )
    else:
        yield well(ABOUT, "connections", found)


def _clock(skew_s: float, about: str) -> Check:
    found = f"its clock and the one here differ by {abs(skew_s):.1f} s"
    if abs(skew_s) > SKEW_S:
        return attention(
            about, "clock", found, "Have both machines follow NTP: retention and delays are reckoned in time"
        )
    return well(about, "clock", found)


def _tables(rows: Sequence[Row]) -> Iterator[Check]:
    for row in rows:
        yield from _table(row)
    yield well(
        ABOUT,
        "tables",
        f"{sum(row['bytes'] for row in rows) / GIGABYTE:.2f} GB in {len(rows)} tables of ours",
    )


def _table(row: Row) -> Iterator[Check]:
    name = row["name"]
    if row["unswept"]:
        yield attention(
            ABOUT,
            name,
            "autovacuum is switched off for this table",
            f"alter table {name} reset (autovacuum_enabled)",
        )
    if row["dead"] > max(DEAD_LEAST, DEAD_SHARE * row["live"]):
        swept = "never" if row["swept"] is None else f"{row['swept']:%Y-%m-%d %H:%M}"
        yield attention(
            ABOUT,
            name,
            f"{row['dead']:,} dead rows beside {row['live']:,}, last swept: {swept}",
            f"vacuum (analyze) {name}, and look for what holds it up: old transactions, slots",
        )
    pages = row["hit"] + row["read"]
    if pages > HIT_LEAST and row["hit"] < HIT_SHARE * pages:
        yield note(
            ABOUT,
            name,
            f"{row['hit'] / pages:.0%} of its pages were in memory",
            "Give PostgreSQL more shared_buffers, or its events ids that rise with time",
        )
    for index in row["idle_indexes"]:
        yield note(ABOUT, name, f"index {index} has not been used since statistics were reset")


clock = _clock

"""The rights that each duty takes on our tables, and what a database role lacks of them or has beyond them.

A duty is what a role of the database does for us. The owner's is not here: it owns the tables, and needs no grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.identifiers import quoted
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row


class Duty(StrEnum):
    """Names what a role of the database does for us."""

    OWNER = "owner"
    """Owns schema, tables and views: migrates, rebuilds, drops, purges the audit trail."""
    RUNNER = "runner"
    RELAY = "relay"
    OPERATOR = "operator"
    OBSERVER = "observer"
    RECORDER = "recorder"
    """A program that records events in transactions of its own."""
    READER = "reader"
    """Reads the views, and nothing of ours."""


GRANTED = tuple(duty for duty in Duty if duty is not Duty.OWNER)
"""The duties that take grants."""
_COLUMNS = (Duty.RUNNER, Duty.RELAY, Duty.OPERATOR, Duty.OBSERVER, Duty.RECORDER)
_LETTERS = {"s": "select", "i": "insert", "u": "update", "d": "delete"}
_RIGHTS = """
                       runner relay  operator observer recorder
archive                sid    -      s        s        -
attempts               sd     siu    s        s        -
audit                  i      -      si       s        -
audit_chain            -      -      s        s        -
audit_head             -      -      s        s        -
buckets                -      siud   s        s        -
build_progress         s      -      s        s        -
build_views            s      -      s        s        -
builds                 s      -      s        s        -
cancels                sid    siu    si       s        -
circuits               -      siud   su       s        -
code_fingerprints      siu    -      s        s        -
consumer_breakers      siu    -      su       s        -
consumers              su     s      su       s        -
counters               siud   -      siu      s        -
crash_marks            siud   -      sd       -        -
decisions              si     -      si       s        -
dirty_marks            si     -      si       -        -
duplicates             sid    -      s        s        -
floors                 siu    s      siu      s        -
generations            s      -      s        s        -
held_counts            sid    -      si       s        -
inbox                  siud   -      su       s        -
incidents              siu    siu    siu      s        -
intents                sid    siu    siu      s        si
leases                 siu    siu    s        s        -
migrations             s      s      s        s        s
minute_counts          siud   -      siu      s        -
names                  si     -      s        s        -
operation_items        -      -      siu      s        -
operation_samples      -      -      siu      s        -
operations             siud   -      siu      s        -
outbox                 si     siud   siud     s        i
own_names              s      -      s        s        -
owner                  siu    siu    siu      s        -
parked                 siud   s      sud      s        -
parked_counts          sid    -      si       s        -
parked_seen            s      -      s        s        -
positions              siu    -      su       s        -
quarantine             siu    -      su       s        -
quarantine_seen        s      -      s        s        -
recorded_aggregates    -      -      s        s        siu
relay_owner            -      siu    s        s        -
relays                 s      siud   s        s        -
retired_consumers      s      -      s        s        -
roles                  s      s      s        s        -
runners                siud   -      su       s        -
setbacks               siud   -      s        s        -
schedule               sid    siu    siu      s        i
schedule_seen          s      s      s        s        -
settled_batches        sid    -      sd       s        -
staged_intents         siud   sud    sud      s        -
streams                siu    -      siu      s        -
views                  su     -      su       s        -
"""
"""By table: select, insert, update, delete. What is not here is the owner's alone."""
ROWS, VIEW, SCHEMA, SEQUENCE = "rows", "view", "schema", "sequence"
"""Kinds of things that rights are about, beside our own tables: tables behind read models, and the views over them."""


def _table_rights() -> dict[Duty, dict[str, str]]:
    found: dict[Duty, dict[str, str]] = {duty: {} for duty in GRANTED}
    for line in _RIGHTS.strip().splitlines()[1:]:
        table, *letters = line.split()
        for duty, text in zip(_COLUMNS, letters, strict=True):
            if text != "-":
                found[duty][table] = text
    return found


TABLE_RIGHTS: Mapping[Duty, Mapping[str, str]] = _table_rights()
_OTHER: Mapping[Duty, tuple[tuple[str, str, str], ...]] = {
    Duty.RUNNER: ((ROWS, "", "siud"), (VIEW, "", "s")),
    Duty.OPERATOR: ((SEQUENCE, "intents_seq_seq", "U"),),
    Duty.READER: ((VIEW, "", "s"),),
}
_SCHEMAS = {Duty.READER: (VIEW,), Duty.RUNNER: ("", VIEW)}
"""Where a duty looks: in our schema, or in those that the views are in."""


class Wanted(msgspec.Struct, frozen=True, order=True):
    """One right that a role is to have."""

    role: str
    kind: str
    name: str
    privilege: str


class RoleChange(msgspec.Struct, frozen=True):
    """A statement that gives a role what it lacks on one thing, or takes what it has beyond."""

    role: str
    object: str
    privileges: tuple[str, ...]
    statement: str


class RightMissing(ProjectionistError):
    """PostgreSQL refuses something to a role that lacks rights of its duty."""


class OwnerNeeded(ProjectionistError):
    """Something takes the owner of the tables, and waits for a command of his."""


class Ownership(msgspec.Struct, frozen=True):
    """Says whose session this is, who owns our tables, and whether the one may do what takes the other."""

    role: str
    owner: str
    owns: bool


async def ownership(connection: Connection, schema: str) -> Ownership:
    """Return whether this session may make and drop tables."""
    row = await connection.fetchrow(_sql(schema)["select_ownership"], schema)
    assert row is not None, "the schema was found before anything is asked of its tables"
    return Ownership(row["role"], row["owner"], bool(row["owns"]))


def wanted(role: str, duties: Iterable[Duty]) -> list[Wanted]:
    """Return the rights of a role with these duties. Pure."""
    found: set[Wanted] = set()
    for duty in duties:
        if duty is Duty.OWNER:
            continue
        things = [*(("table", *one) for one in TABLE_RIGHTS[duty].items()), *_OTHER.get(duty, ())]
        for kind, name, letters in things:
            found |= {Wanted(role, kind, name, _LETTERS.get(one, "usage")) for one in letters}
        found |= {Wanted(role, SCHEMA, name, "usage") for name in _SCHEMAS.get(duty, ("",))}
    return sorted(found)


async def missing(connection: Connection, schema: str, rights: Sequence[Wanted]) -> list[RoleChange]:
    """Return the grants for those of these rights that are not there, directly, by membership or for everybody."""
    rows = await connection.fetch(_sql(schema)["select_missing_rights"], schema, *_columns(rights))
    return [_change("grant", "to", row) for row in rows]


async def surplus(
    connection: Connection, schema: str, roles: Sequence[str], rights: Sequence[Wanted]
) -> list[RoleChange]:
    """Return the revokes for what these roles were granted themselves on things of ours beyond these rights."""
    rows = await connection.fetch(
        _sql(schema)["select_surplus_rights"], schema, *_columns(rights), list(roles)
    )
    return [_change(_REVOKES[row["wanted"]], "from", row, _CASCADES[row["grantable"]]) for row in rows]


async def recorded(connection: Connection, schema: str) -> dict[Duty, list[str]]:
    """Return the roles that `projectionist roles apply` has made grants to, by duty."""
    found: dict[Duty, list[str]] = {}
    for row in await connection.fetch(_sql(schema)["select_roles"]):
        found.setdefault(Duty(row["duty"]), []).append(row["role"])
    return found


async def grant_recorded(connection: Connection, schema: str) -> list[RoleChange]:
    """Give the roles on record what they lack, in the caller's transaction: for tables that it has made."""
    duties = await recorded(connection, schema)
    changes = await missing(connection, schema, of_roles(duties))
    for change in changes:
        await connection.execute(change.statement)
    return changes


def of_roles(duties: Mapping[Duty, Sequence[str]]) -> list[Wanted]:
    """Return the rights of roles by their duties; one role may have several. Pure."""
    by_role: dict[str, set[Duty]] = {}
    for duty, roles in duties.items():
        for role in roles:
            by_role.setdefault(role, set()).add(duty)
    return [right for role, its in sorted(by_role.items()) for right in wanted(role, its)]


async def refusal(
    connection: Connection, schema: str, error: BaseException, duty: Duty
) -> RightMissing | None:
    """Return what PostgreSQL's refusal means where this session's role lacks rights of its duty.

    None where it lacks none of them: something else has refused, such as a policy or a trigger.
    """
    role: str = await connection.fetchval(_sql(schema)["select_session_role"])
    lacking = await missing(connection, schema, wanted(role, [duty]))
    if not lacking:
        return None
    first = "; ".join(change.statement for change in lacking[:_SHOWN])
    more = f"; and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
    return RightMissing(
        f"role {role!r} of the database lacks rights of {'an' if duty[0] == 'o' else 'a'} {duty}: {error}",
        remedy=f"Let the owner run `projectionist roles apply --{duty} {role}`, or: {first}{more}",
    )


_REVOKES = {False: "revoke", True: "revoke grant option for"}
_CASCADES = {False: "", True: " cascade"}
"""Who may grant a right has perhaps done so: what came of it goes with it."""
_SHOWN = 3
"""So many grants stand in an error."""


def _change(word: str, towards: str, row: Row, end: str = "") -> RoleChange:
    privileges = tuple(sorted(row["privileges"]))
    role = str(row["role"])
    to = "public" if role == "public" else quoted(role)
    statement = f"{word} {', '.join(privileges)} on {row['object']} {towards} {to}{end}"
    return RoleChange(role, str(row["object"]), privileges, statement)


def _columns(rights: Sequence[Wanted]) -> list[list[str]]:
    return [[getattr(one, name) for one in rights] for name in ("role", "kind", "name", "privilege")]


def _sql(schema: str) -> Statements:
    return Statements("projectionist.core", schema)

"""Which roles of the database have which duty, and what is still to be granted for that: planned, and applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from projectionist.core.identifiers import quoted
from projectionist.core.operator import Act
from projectionist.core.postgres.connections import Connection
from projectionist.core.postgres.rights import (
    Duty,
    RoleChange,
    missing,
    of_roles,
    ownership,
    recorded,
    surplus,
)
from projectionist.core.postgres.statements import Statements
from projectionist.migrations.catalog import MigrationError

_CORE = "projectionist.core"


class RolePlan(msgspec.Struct):
    """What `apply` would do, and what it leaves."""

    duties: dict[str, list[str]]
    """All roles that have a duty afterwards, those on record among them."""
    owner: list[str]
    """Statements that give what is ours to the owner that was named."""
    grants: list[RoleChange]
    surplus: list[RoleChange]
    """What these roles were granted beyond their duties: taken only where that is asked for."""

    def statements(self, *, revoke: bool) -> list[str]:
        """Return what is run, in its order."""
        changes = [*self.grants, *(self.surplus if revoke else ())]
        return [*self.owner, *(change.statement for change in changes)]


async def plan_roles(connection: Connection, schema: str, named: Mapping[Duty, Sequence[str]]) -> RolePlan:
    """Return what these roles lack and have too much of; a duty that is named here loses the roles on record for it.

    Raises MigrationError for a role that is not there: a login with a password is yours to make.
    """
    before = await recorded(connection, schema)
    duties = {duty: sorted(roles) for duty, roles in {**before, **named}.items() if roles}
    everybody = sorted({role for roles in [*before.values(), *duties.values()] for role in roles})
    sql = Statements(_CORE, schema)
    for row in await connection.fetch(sql["select_unknown_roles"], everybody):
        raise MigrationError(
            f"there is no role {row['name']!r} in the database",
            remedy=f"Make it, with a password of its own: create role {quoted(row['name'])} login",
        )
    if len(duties.get(Duty.OWNER, ())) > 1:
        raise MigrationError(
            "tables have one owner", remedy="Name one; who is to act for it is made its member"
        )
    owner = next(iter(duties.get(Duty.OWNER, ())), (await ownership(connection, schema)).owner)
    given = [row["statement"] for row in await connection.fetch(sql["select_foreign_objects"], schema, owner)]
    rights = of_roles({duty: roles for duty, roles in duties.items() if duty is not Duty.OWNER})
    others = [role for role in everybody if role != owner]
    return RolePlan(
        {duty.value: roles for duty, roles in sorted(duties.items())},
        given if Duty.OWNER in duties else [],
        await missing(connection, schema, rights),
        await surplus(connection, schema, others, rights),
    )


async def apply_roles(
    connection: Connection, schema: str, named: Mapping[Duty, Sequence[str]], act: Act, *, revoke: bool
) -> RolePlan:
    """Do it in one transaction, on record, and return what was done; afterwards nothing of it is left to do."""
    sql = Statements(_CORE, schema)
    async with connection.transaction():
        plan = await plan_roles(connection, schema, named)
        statements = plan.statements(revoke=revoke)
        for statement in statements:
            await connection.execute(statement)
        left = await plan_roles(connection, schema, named)
        if statements:
            await connection.execute(sql["insert_roles_act"], act.actor, act.reason, statements)
        for duty, roles in named.items():
            await connection.execute(sql["delete_roles"], duty, sorted(roles))
            await connection.execute(sql["insert_roles"], duty, sorted(roles))
        if left.grants or left.owner:
            raise MigrationError(
                f"grants without effect: {left.statements(revoke=False)[0]}",
                remedy="Run this as the owner of the tables, or as a superuser. Nothing was changed",
            )
        if revoke and left.surplus:
            raise MigrationError(
                f"a revoke without effect: {left.surplus[0].statement}",
                remedy="Another role has granted it: let that role revoke it, or a superuser as that role. "
                "Nothing was changed",
            )
    return plan

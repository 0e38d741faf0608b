"""The pooler that transactions go through, where `direct_url` is set: whether both URLs lead to one database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres import connections
from projectionist.core.postgres.pooled_session import greeted
from projectionist.core.postgres.statements import Statements
from projectionist.ops.doctor.check import Check, attention, note, well
from projectionist.ops.doctor.database import ABOUT, BATCHES

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.core.settings.settings import Postgres

_NAME = "pooler"


async def look(direct: Connection, postgres: Postgres, consumers: int) -> list[Check]:
    """Compare what answers through `url` with what answers on this connection to `direct_url`."""
    if postgres.direct_url is None:
        return []
    try:
        lent = await connections.connect(postgres, application_name="projectionist doctor", pooled=True)
    except ProjectionistError as error:
        return [attention(ABOUT, _NAME, error.message, error.remedy)]
    try:
        sql = Statements("projectionist.ops", postgres.schema)["select_pooled_place"]
        places = [await one.fetchrow(sql, greeted(one)) for one in (lent, direct)]
        return _compared(places[0], places[1], postgres, consumers)
    finally:
        await lent.close()


def _compared(lent: Row | None, direct: Row | None, postgres: Postgres, consumers: int) -> list[Check]:
    assert lent is not None, "one row, always"
    assert direct is not None, "one row, always"
    if (lent["begun"], lent["database"]) != (direct["begun"], direct["database"]):
        found = f"{postgres.url} and {postgres.direct_url} lead to two databases"
        return [attention(ABOUT, _NAME, found, "Have postgres.url and postgres.direct_url lead to one")]
    if lent["role"] != direct["role"]:
        found = f"{postgres.url} logs in as {lent['role']}, {postgres.direct_url} as {direct['role']}"
        mend = "Name one user in both: a role may not end what a frozen process of another holds"
        return [attention(ABOUT, _NAME, found, mend)]
    found = f"transactions go through {postgres.url}, what needs a session to {postgres.direct_url}"
    if not lent["pooled"]:
        return [note(ABOUT, _NAME, f"{found}: no pooler is seen between", "Without one, set url alone")]
    return [well(ABOUT, _NAME, f"{found}; a process of this app has {BATCHES * consumers} open at most")]

"""Roles that are no superusers: what most of those have who use a database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA

from projectionist.core.settings.secret import Url

RUNNER = "the_runner"

_TAKE = """do $$ declare one text; begin
for one in
    select format('alter %s %s owner to {role}', case c.relkind when 'v' then 'view' else 'table' end, c.oid::regclass)
    from pg_class c where c.relkind in ('r', 'p', 'v')
        and c.relnamespace in ('{schema}'::regnamespace, 'public'::regnamespace)
loop execute one; end loop; end $$"""


@asynccontextmanager
async def plain(harness: ConsumerHarness, role: str) -> AsyncIterator[str]:
    """The database's URL for a new role without any right of its own; what it made goes with it."""
    await harness.pool.execute(f"create role {role} login password 'secret'")
    parts = urlsplit(harness.database)
    try:
        yield parts._replace(netloc=f"{role}:secret@{parts.netloc.rpartition('@')[2]}").geturl()
    finally:
        await harness.pool.execute(
            f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '{role}'"
        )
        await harness.pool.execute(
            f"reassign owned by {role} to current_user; drop owned by {role}; drop role {role}"
        )


async def hand_over(harness: ConsumerHarness, role: str) -> None:
    """Make a role the owner of our schema and of every table and view, as if it had migrated itself."""
    await harness.pool.execute(f"alter schema {SCHEMA} owner to {role}; grant all on schema public to {role}")
    await harness.pool.execute(f"grant all on database {urlsplit(harness.database).path[1:]} to {role}")
    await harness.pool.execute(_TAKE.format(role=role, schema=SCHEMA))


@asynccontextmanager
async def as_plain(harness: ConsumerHarness, role: str = RUNNER) -> AsyncIterator[None]:
    """Have what migrates, runs, rebuilds and verifies work as a new role with our schema and no further right."""
    before = harness.settings
    async with plain(harness, role) as ours:
        await hand_over(harness, role)
        postgres = msgspec.structs.replace(before.postgres, url=Url(ours))
        harness.settings = msgspec.structs.replace(before, postgres=postgres)
        try:
            yield
        finally:
            harness.settings = before

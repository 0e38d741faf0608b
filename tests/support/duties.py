"""A database whose tables have an owner of their own, and a role with the rights of each duty."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import msgspec
from tests.support.consumer_harness import ConsumerHarness
from tests.support.roles import hand_over, plain
from tests.support.servers import SCHEMA

from projectionist.core.operator import Act
from projectionist.core.postgres.rights import GRANTED, Duty
from projectionist.core.settings.secret import Url
from projectionist.migrations.role_plan import apply_roles


def named(live: ConsumerHarness, duty: Duty) -> str:
    """The role that has a duty in this test."""
    return f"{duty}_{live.stream.name.lower()}"


@asynccontextmanager
async def working_as(live: ConsumerHarness, url: str) -> AsyncIterator[None]:
    """Have what migrates, runs and rebuilds work as the role of this URL."""
    before = live.settings
    live.settings = msgspec.structs.replace(
        before, postgres=msgspec.structs.replace(before.postgres, url=Url(url))
    )
    try:
        yield
    finally:
        live.settings = before


@asynccontextmanager
async def with_duties(live: ConsumerHarness) -> AsyncIterator[dict[Duty, str]]:
    """The database's URL for a role of each duty, which has these rights and no other; the owner is no superuser."""
    async with AsyncExitStack() as stack:
        urls = {duty: await stack.enter_async_context(plain(live, named(live, duty))) for duty in Duty}
        await hand_over(live, named(live, Duty.OWNER))
        await live.pool.execute("revoke create on schema public from public")
        await live.pool.execute(
            f"grant create on database {urlsplit(live.database).path[1:]} to {named(live, Duty.OWNER)}"
        )
        owner, act = await asyncpg.connect(urls[Duty.OWNER]), Act("ann", "a test")
        await owner.execute("set search_path = pg_catalog")
        await apply_roles(owner, SCHEMA, {duty: [named(live, duty)] for duty in GRANTED}, act, revoke=True)
        await owner.close()
        yield urls

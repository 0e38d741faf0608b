"""Whoever may create in a schema of the search path has nothing of theirs called by us."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.retention import age
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

KINDS = [
    "text",
    "bigint",
    "integer",
    "smallint",
    "boolean",
    "bytea",
    "float8",
    "timestamptz",
    "uuid",
    "jsonb",
]
TABLES = [
    "parked",
    "inbox",
    "intents",
    "outbox",
    "audit",
    "attempts",
    "quarantine",
    "positions",
    "decisions",
    "consumers",
    "archive",
]

PLANTED = [
    *((f"{name}({kind}[])", f"setof {kind}") for kind in KINDS for name in ("unnest",)),
    *((f"{name}({kind}[])", "integer") for kind in KINDS for name in ("cardinality",)),
    *((f"array_length({kind}[], integer)", "integer") for kind in KINDS),
    *((f"array_position({kind}[], {kind})", "integer") for kind in KINDS),
    *((f"array_remove({kind}[], {kind})", f"{kind}[]") for kind in KINDS),
    *((f"gathered({kind}[], {kind})", f"{kind}[]") for kind in KINDS),
    *((f"to_jsonb({kind})", "jsonb") for kind in KINDS),
    *((f"to_jsonb(projectionist.{table})", "jsonb") for table in TABLES),
    ("to_jsonb(record)", "jsonb"),
    ("format(text, text)", "text"),
    ("concat(text, text)", "text"),
    ("jsonb_build_object(text, text)", "jsonb"),
    ("glued(text, integer)", "text"),
    ("glued(integer, text)", "text"),
]
"""PostgreSQL takes a function for the exact type before its own for any type, in whatever schema it lies."""
BEHIND = [
    *(f"aggregate array_agg({kind}) (sfunc = gathered, stype = {kind}[])" for kind in KINDS),
    "operator || (leftarg = text, rightarg = integer, function = glued)",
    "operator || (leftarg = integer, rightarg = text, function = glued)",
]


def planted() -> str:
    """Return what a role creates that may do nothing else; each of them fails whoever calls it."""
    functions = [
        f"function {head} returns {result} language plpgsql as $$ begin raise 'planted: {head}'; end $$"
        for head, result in PLANTED
    ]
    return "; ".join(f"create {one}" for one in [*functions, *BEHIND])


async def plant(live: ConsumerHarness) -> None:
    """Plant as a role with USAGE of our schema, as a relay's has it, and with CREATE in `public`."""
    role = f"planter_{live.stream.name.lower()}"
    await live.pool.execute(
        f"create role {role}; grant create on schema public to {role}; grant usage on schema projectionist to {role}"
    )
    async with live.connected() as connection:
        await connection.execute(f"set role {role}; set search_path = public; {planted()}")


async def test_what_others_planted_is_called_by_whoever_asks_for_it(live: ConsumerHarness) -> None:
    await plant(live)
    for sql in ("select unnest('{a}'::text[])", "select array_agg('a'::text)", "select 'a'::text || 1"):
        with pytest.raises(Exception, match="planted"):
            await live.value(sql)


async def test_what_others_planted_is_called_by_no_process_and_no_command(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend, s.Journal)
    await plant(live)
    s.trouble.poison.add("bad")
    for number in range(3):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)
    await live.publish(OrderNoted("bad"), "o0", 3, id="bad")
    await live.publish(OrderPaid(), "o1", 7)
    await live.nats.jetstream().publish(live.stream.subject("order", "o9"), b"{", headers={"ce-id": "odd"})
    await live.settle(s.Orders, s.Spend, s.Journal)
    assert len(await live.rows("orders")) == 3

    process = environment(live, poison="bad")
    cli = Cli(live, tmp_path, more='[retention]\narchive = "table"\n', **process)
    for words in (
        "status",
        f"doctor {APP}",
        "parked list",
        "outbox list",
        "journey bad",
        "parked skip bad --consumer Orders --reason tested",
        f"rebuild {APP} Orders",
        f"recompute {APP} Orders o1 --reason tested",
    ):
        ended = await cli.run(*words.split())
        said = (ended.out + ended.err).replace(str(tmp_path), "")  # the folder bears the name of this test
        assert "planted:" not in said, words
        assert ended.code in (0, 3), f"{words}: {ended.out}{ended.err}"
    await age(live, 400)
    assert "inbox" in await cli.done("purge", APP)
    async with projectionist("run", APP, env=process) as child:
        await live.publish(OrderPlaced("ann", 1), "late", 1)
        await eventually(lambda: live.value("select exists (select from orders where order_id = 'late')"))
        child.signal(signal.SIGTERM)
        assert "planted:" not in (await child.ended()).err

"""Functions and operators of a stranger, which PostgreSQL prefers to its own wherever a search path leads to them."""

from __future__ import annotations

from tests.support.consumer_harness import ConsumerHarness

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

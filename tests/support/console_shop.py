"""A shop of which every page of the console has something to show, much of it hostile or secret."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.settings.settings import Settings

HOSTILE = '"><script>alert(1)</script><img/src=x/onerror=alert(2)>{{7*7}}'
CANARY = "canary-4711"
"""What a payload and an error hold, which nobody has asked to see."""
NAMED = quote(HOSTILE)
INTENT = """
    insert into projectionist.intents
        (key, consumer, source, id, slot, class, provider, destination, ordering, on_dead, body, hash)
    select key, 1, 'shop', 'e1', key, 'Receipt', 'email', 'https://mail.example/CANARY', 'HOSTILE', 'block',
        'CANARY', ''
    from unnest('{one,two}'::text[]) key;
    insert into projectionist.outbox (seq, provider, destination, lane, place, state, error)
    select seq, provider, destination, ordering, seq, 'dead', '550 CANARY' from projectionist.intents where key = 'one'
    union all
    select seq, provider, destination, ordering, seq, 'ready', null from projectionist.intents where key = 'two'"""
"""One that is dead, and another that stands behind it."""
OPERATION = """
    with made as (
        insert into projectionist.operations
            (kind, chosen, who, reason, rate, patience_s, matched, failed, note)
        values (
            'retry_parked', jsonb_build_object('consumer', 'Orders', 'aggregate', $1::text),
            $1, $1, 200, 30, 2, 1, $1
        )
        returning number
    )
    insert into projectionist.operation_items
        (operation, place, alike, sample, judged, consumer, source, id, aggregate, version, attempts, state, note)
    select number, n, 1, n - 1, true, 1, 'shop', $1, 'order/o1', 1, 1,
        case n when 1 then 'failed' else 'waiting' end, $1
    from made, generate_series(1, 2) n"""
"""One that nobody carries out."""
COUNTED = """
    insert into projectionist.counters (consumer, runner, hour, type, outcome, n)
    select 1, 1, date_trunc('hour', now()), kind, outcome, 12345678
    from unnest($1::text[]) kind, unnest($2::text[]) outcome
    on conflict (consumer, runner, hour, type, outcome) do update set n = excluded.n"""
TYPES = ("order.placed", "payment.received", "warehouse.stock_reservation_cancelled.v2")
OUTCOMES = (
    *("applied", "ignored", "stale", "duplicate", "foreign", "skipped", "discarded", "erased", "failed"),
    *("parked_gap", "parked_blocked", "parked_failed", "parked_stored"),
)
"""All that is counted of events, so that the widest table is looked at."""
FRAMES = ("/live?here=audit",)
"""What open pages ask for, and nobody goes to."""
READ = (
    *("/", "/consumer?name=Orders", "/incidents", "/audit", "/audit.csv", "/doctor", "/streams"),
    *("/waiting", "/waiting/group?cause=failed", f"/waiting/event?id={NAMED}"),
    *("/quarantine", "/quarantine/group?cause=version", "/quarantine/entry?seq=5&consumer=Orders"),
    *("/outbox", "/outbox/group?state=dead", "/outbox/intent?key=one"),
    *("/operations", "/operation?number=1"),
    *("/map", "/preview", "/rebuilds", "/rebuild?consumer=Orders", "/row?consumer=Orders&key=o1&at=1"),
    *(f"/flow?correlation={NAMED}",),
    *(f"/journey?id={NAMED}", f"/aggregate?name={quote('order/o1')}", "/search?q=nothing"),
)


def indexed(settings: Settings) -> Settings:
    """Return these settings as of a project that finds events by correlation and trace."""
    postgres = msgspec.structs.replace(settings.postgres, correlation_index=True, trace_index=True)
    return msgspec.structs.replace(settings, postgres=postgres)


async def troubled(live: ConsumerHarness) -> Any:
    """A shop in which one order has failed and another lacks a version, an incident is open, under hostile names."""
    made = shop(live.stream)
    await live.migrate(made.Orders, made.Spend)
    made.trouble.poison.add(CANARY)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="placed-1")
    flow = {"ce-correlationid": HOSTILE, "ce-causationid": HOSTILE}
    await live.publish(OrderNoted(CANARY), "o1", 2, id=HOSTILE, headers=flow)
    await live.publish(OrderPaid(), "o1", 3, id="paid-1")
    await live.publish(OrderPlaced("bob", 9), '"><script>x', 1, id="placed-2")
    await live.publish(
        OrderNoted(CANARY), "o3", 1, headers={"ce-aggregateversion": HOSTILE, "x-note": CANARY}
    )
    async with live.running(made.Orders, made.Spend):
        await live.settled(made.Orders)
    await live.pool.execute(
        """insert into projectionist.incidents (consumer, kind, incarnation, seq, source, id, detail)
        values (1, 'late', 1, 2, 'shop', $1, $2)""",
        HOSTILE,
        f"stepped over: {HOSTILE}",
    )
    live.tampered = True
    await live.pool.execute(INTENT.replace("CANARY", CANARY).replace("HOSTILE", HOSTILE))
    await live.pool.execute(OPERATION, HOSTILE)
    await live.pool.execute(COUNTED, TYPES, OUTCOMES)
    return made

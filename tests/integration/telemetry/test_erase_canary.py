"""A value that stood in every column that holds content is nowhere after an erase: no table, file, line or span."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import msgspec
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import ACT, holders, holding
from tests.support.otlp import sink
from tests.support.rebuilding import SHOP_APP
from tests.support.retention import age, purge, sent
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.settings.settings import Telemetry

pytestmark = pytest.mark.asyncio

WORD = "c4nary-value"
PAGE = (Path(__file__).parents[3] / "docs" / "operations" / "erase.md").read_text("utf-8")
UNSETTLED = {"outbox", "staged_intents"}
"""Tables that hold content only while an erase is refused because of it."""
TRACED = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": f"shop={WORD}",
    "baggage": f"user={WORD}",
}
PLANTED = """
update projectionist.parked set problem = '{w}', stack = '{w}' where id = 'e5';
update projectionist.quarantine set detail = '{w}' where seq = (select min(seq) from projectionist.quarantine);
update projectionist.intents set destination = '{w}', ordering = '{w}', scope = '{w}', excerpt = '{w}', error = '{w}',
    tracestate = '{w}', baggage = '{w}', body = '{w}'::bytea;
insert into projectionist.attempts (intent, attempt, relay, started, outcome, excerpt, reason)
select seq, 1, 'r', now(), 'retry', '{w}', '{w}' from projectionist.intents;
insert into projectionist.circuits (provider, destination) values ('email', '{w}');
insert into projectionist.buckets (provider, destination, tokens, granted, refilled)
values ('email', '{w}', 1, 1, now());
insert into projectionist.incidents (consumer, kind, incarnation, seq, aggregate, detail)
select number, 'fault', 1, 99, 'order/o1', '{w}' from projectionist.consumers limit 1;
insert into projectionist.intents (key, consumer, source, id, aggregate, version, slot, class, provider, destination,
    on_dead, body, hash, state, settled)
select 'recorded', 0, 'shop', 'e9', 'order/o1', 9, 's', 'c', 'ORDERS', 'ORDERS', 'block', '{w}'::bytea, hash,
    'sent', now() from projectionist.intents limit 1
"""
"""What no scenario here puts there: answers of providers, faults, events recorded through the outbox."""


def content() -> set[tuple[str, str]]:
    """Return the columns that the page calls content, but for those an erase is refused because of."""
    lines = PAGE.partition("| table | content, erased |")[2].splitlines()[2:]
    cells = ([re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:3]] for line in lines)
    return {(table, column) for (table,), columns in cells for column in columns if table not in UNSETTLED}


async def everywhere(live: ConsumerHarness, folder: Path) -> None:
    """Have the word stand in all of them, of one order: archived, applied, failed, blocked, edited, in quarantine."""
    s = shop(live.stream)
    s.trouble.poison.add(WORD)
    live.settings = msgspec.structs.replace(live.settings, telemetry=Telemetry(baggage=("user",)))
    policy = msgspec.structs.replace(live.policy, payload="always")
    await live.migrate(s.Orders, s.Spend)
    for version, event in ((1, OrderPlaced(WORD, 1)), (2, OrderPaid())):
        await live.publish(event, "o1", version, id=f"e{version}", headers=TRACED)
    await live.publish(OrderPlaced("ann", 5), "o2", 1, id="other")
    await live.settle(s.Orders, s.Spend, policy=policy)
    await sent(live)
    await age(live, 100)
    await purge(live, s.Orders, archive="table", policy=policy)
    await purge(live, s.Spend, archive="files", archive_folder=str(folder), policy=policy)
    for version, later in ((3, OrderPaid()), (4, OrderNoted(WORD)), (5, OrderNoted(WORD))):
        await live.publish(later, "o1", version, id=f"e{version}", headers=TRACED)
    for name in ("q1", "q2", "q3"):
        await live.publish(OrderNoted(WORD), "o1", None, id=name, headers={"x-note": WORD})
    await live.settle(s.Orders, s.Spend, policy=policy)
    async with live.verbs(s.Orders) as verbs:
        await verbs.edit(("shop", "e5"), msgspec.json.encode(OrderNoted(WORD)), b"\x00" * 16, ACT)
    places = sorted({(1, seq) for (seq,) in await inspection.rows(live, "quarantine", "seq")})
    async with live.quarantine(s.Orders) as verbs:
        await verbs.discard(places[0], ACT)
        await verbs.edit(places[1], ACT, headers={"x-note": f"{WORD} too"})
    await sent(live)
    await live.pool.execute(PLANTED.format(w=WORD))


async def test_a_value_that_stood_in_every_column_is_nowhere_after_its_erase(
    live: ConsumerHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await everywhere(live, tmp_path / "archive")
    assert await holding(live, WORD) >= content(), "what is called content does hold it"
    assert WORD in files(tmp_path / "archive") or WORD.encode().hex() in files(tmp_path / "archive")
    caplog.clear()

    (tmp_path / "orders.py").write_text(SHOP_APP.format(name=live.stream.name))
    with sink() as collected:
        more = f'[retention]\narchive = "files"\narchive_folder = "{tmp_path / "archive"}"\n'
        terminal = Cli(
            live,
            tmp_path,
            more=more,
            PROJECTIONIST_TELEMETRY__ENDPOINT=collected.url,
            PROJECTIONIST_TELEMETRY__LOGS="json",
        )
        command = ("erase", "orders:app", "--aggregate", "order/o1", "--reason", "ticket 4711", "--stream")
        ended = await terminal.run(*command)
        assert ended.code == 0, ended.out + ended.err
    said = [ended.out, ended.err, caplog.text, files(tmp_path / "archive")]
    said += [body.decode("utf-8", "replace") for body in collected.raw]
    assert await holders(live, WORD) == []
    assert not [text for text in said if WORD in text or WORD.encode().hex() in text]
    assert "other" in files(tmp_path / "archive"), "rows of others are left"
    live.tampered = True


def files(folder: Path) -> str:
    """Return all that stands in the files below a folder."""
    return "\n".join(path.read_text() for path in folder.rglob("*") if path.is_file())

"""Content is shown by no command unless it is asked for with a reason, which is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment

pytestmark = pytest.mark.asyncio

PAYLOAD, HEADER, ANSWER, PATH = "c4nary-payload", "c4nary-header", "c4nary-answer", "c4nary-path"
CANARIES = {PAYLOAD, HEADER, ANSWER, PATH}
WHY = ("--reveal", "--reason", "ticket 7")
REFUSED = f"""
update projectionist.intents set destination = 'https://hooks.example/{PATH}';
with tried as (
    update projectionist.outbox set state = 'dead', open = false, attempt = 1, error = '{ANSWER}'
    returning seq
)
insert into projectionist.attempts (intent, attempt, relay, started, took_s, outcome, status, reason, excerpt)
select seq, 1, 'a:1', clock_timestamp(), 0.1, 'refused', '402', '{ANSWER}', 'it says {ANSWER}' from tried;
insert into projectionist.incidents (consumer, kind, incarnation, seq, source, id, aggregate, version, detail)
select consumer, 'intent_mismatch', 0, seq, source, id, aggregate, version, 'email: {ANSWER}' from projectionist.intents
"""


@pytest.mark.deadline(900)
async def test_content_is_shown_on_record_and_by_no_command_without_it(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s, cli = shop(live.stream), Cli(live, tmp_path)
    s.trouble.poison.add(PAYLOAD)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced(PAYLOAD, 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2, id="paid")
    await live.publish(OrderNoted(PAYLOAD), "o1", 3, id="bad")
    await live.publish(OrderPlaced("ann", 5), "o2", 1, id="when", headers={"ce-time": HEADER, "x-to": HEADER})
    await live.settle(s.Orders)
    await cli.done("outbox", "list")  # which unpacks what is staged
    await live.pool.execute(REFUSED)
    [(key,)] = await inspection.rows(live, "intents", "key")
    for words, revealed in (
        ("status", set()),
        ("audit", set()),
        ("parked list", {PAYLOAD}),
        ("parked list --each", {PAYLOAD}),
        ("parked show bad", {PAYLOAD}),
        ("quarantine list", {HEADER}),
        ("quarantine list --each", {HEADER}),
        ("quarantine show 4", {HEADER}),
        ("incidents list", set()),
        ("incidents list --each", {ANSWER}),
        ("incidents show 1", {ANSWER}),
        ("outbox list", {ANSWER}),
        ("outbox list --each", {ANSWER, PATH}),
        (f"outbox show {key}", {ANSWER, PATH}),
        ("journey bad", {PAYLOAD}),
        ("journey when", {HEADER}),
        ("journey paid", {ANSWER}),
        ("journey --aggregate order/o1", set()),
    ):
        shown = (await cli.run(*words.split(), "--json")).out
        assert shown, words
        assert not {one for one in CANARIES if one in shown}, words
        if revealed:
            before = await reveals(live)
            shown = await cli.done(*words.split(), *WHY, "--json")
            assert {one for one in CANARIES if one in shown} >= revealed, words
            assert await reveals(live) > before, words
    app = Cli(live, tmp_path, **environment(live, poison=PAYLOAD))
    examined = (await app.run("doctor", APP)).out
    assert "some cannot be read: time [" in examined
    assert not {one for one in CANARIES if one in examined}
    for words in ("outbox list --each", "parked show bad", "quarantine show 4", "journey paid"):
        text = await cli.done(*words.split())
        assert not {one for one in CANARIES if one in text}, words
        assert "needs a reason" in await cli.refused(*words.split(), "--reveal"), words
    assert "hooks.example [" in await cli.done("outbox", "list", "--each")


async def reveals(live: ConsumerHarness) -> int:
    return len(await inspection.rows(live, "audit", "number", action="reveal"))

"""What goes wrong is logged without content: no destination, aggregate, header, text of a handler or of a provider."""

from __future__ import annotations

import logging
from typing import Any

import asyncpg
import msgspec
import pytest
from tests.integration.telemetry.test_canary import assert_clean
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import FAST, Outbox, answer, made, scripted
from tests.support.quarantine import tried
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderRow, shop
from tests.support.waiting import listening

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.core.errors import ProjectionistError
from projectionist.core.log_format import JsonFormatter, TextFormatter
from projectionist.core.operator import Act
from projectionist.core.postgres.error_text import said
from projectionist.core.settings.settings import Policy
from projectionist.outbox.providers import Outcome
from projectionist.projections import on
from projectionist.runner.database.chores import ChoreFailures
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.rebuild.compare import Differs

CANARY = "c4nary"
URL = f"https://hooks.example/services/{CANARY}"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "projectionist")
    return caplog


def assert_no_content(caplog: pytest.LogCaptureFixture, *told: str) -> None:
    """Each of these stands in a line, and in none of them, in either form, stands a canary."""
    forms = (TextFormatter(), JsonFormatter())
    written = [form.format(record) for record in caplog.records for form in forms]
    assert_clean(written, [CANARY])
    for text in told:
        assert any(text in line for line in written), text


@pytest.mark.asyncio
async def test_what_a_provider_and_a_destination_say_is_in_no_line(
    harness: Outbox, lines: pytest.LogCaptureFixture
) -> None:
    stub = scripted()
    failed = answer(Outcome.NOT_SENT, reason=f"it says {CANARY}")
    stub.script["*"] = [failed] * 5 + [answer(Outcome.REFUSED, reason=f"it says {CANARY}")] * 2
    await harness.want(destination=URL)
    policy = BreakerPolicy(failures=5, open_s=0.1, maximum_s=0.1)
    once = msgspec.structs.replace(FAST, attempts=1)
    with listening() as heard:
        async with harness.relaying(made(stub, breaker=policy, retry=once)):
            await heard.wait("circuit.opened")
            await harness.want(
                destination=URL
            )  # the first may be on its way already, and then says nothing of now
            await harness.all_become("dead")
            await heard.wait("circuit.closed")
    assert_no_content(lines, "hooks.example [", "has failed 5 times", " dead: refused [")


@pytest.mark.asyncio
async def test_gaps_and_what_stays_in_quarantine_are_told_without_aggregates_and_headers(
    live: ConsumerHarness, lines: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(5), f"{CANARY}-gap", 3, id="behind")
    seq = await live.publish(OrderPlaced(CANARY, 5), f"{CANARY}-two", 1, headers={"ce-time": CANARY})
    async with live.running(s.Orders, policy=Policy(late_s=0)), live.quarantine(s.Orders) as verbs:
        await live.value_of("select count(*) from {s}.positions where finding is not null", 1)
        await live.value_of("select count(*) from {s}.quarantine", 1)
        await verbs.retry((1, seq), Act("ann", "to see"))
        await tried(live)
    assert_no_content(lines, "lacks versions 1 to 2: lost", "stay in quarantine", ": time")


@pytest.mark.asyncio
async def test_a_handler_that_fails_on_history_is_told_without_its_text(
    rebuilds: RebuildHarness, lines: pytest.LogCaptureFixture
) -> None:
    live = rebuilds.harness
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), f"{CANARY}-1", 1)
    await live.publish(OrderNoted(CANARY), f"{CANARY}-1", 2)
    await live.settle(s.Orders)
    s.trouble.poison.add(CANARY)
    with pytest.raises(HandlersFailed) as told:
        await rebuilds.rebuild(s.Orders)
    assert "v2 (sequence 2, order.noted): ValueError [" in str(told.value)
    assert told.value.stumbles[0].text == f"ValueError: cannot digest {CANARY}"
    with listening() as heard:
        async with live.running(second(live), supervised=True):
            await heard.wait("worker.stuck")
    assert_clean([str(told.value)], [CANARY])
    assert_no_content(lines, "the handlers of this code fail on events")


@pytest.mark.asyncio
async def test_rows_that_differ_are_told_without_keys_and_values(rebuilds: RebuildHarness) -> None:
    live = rebuilds.harness
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), f"{CANARY}-1", 1)
    await live.settle(s.Orders)
    await live.pool.execute(f"update projectionist.orders__g1 set status = '{CANARY}'")
    with pytest.raises(Differs) as told:
        await rebuilds.rebuild(s.Orders)
    assert_clean([str(told.value)], [CANARY])
    [found] = told.value.compared.differences
    assert found.told(values=False) == f"orders {CANARY}-1: status"
    assert found.told(values=True) == f"orders {CANARY}-1: status '{CANARY}' -> 'placed'"


def second(live: ConsumerHarness) -> Any:
    """`Orders` at revision 2, whose handler raises what it is given."""

    class Orders(
        OrderRow,
        table="orders",
        key="order_id",
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        effects="beginning",
        revision=2,
    ):
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            raise ValueError(f"cannot digest {event.text}")

    return Orders


@pytest.mark.parametrize(
    "error",
    [
        ValueError(CANARY),
        asyncpg.InvalidTextRepresentationError(f'invalid input syntax for type integer: "{CANARY}"'),
        asyncpg.RaiseError(CANARY),
    ],
)
def test_an_error_that_a_value_brought_about_is_told_by_class_and_digest(
    error: Exception, lines: pytest.LogCaptureFixture
) -> None:
    try:
        raise ValueError(CANARY) from error
    except ValueError as raised:
        ChoreFailures("looking").note(raised)
    assert_clean([said(error)], [CANARY])
    assert type(error).__name__ in said(error)
    assert_no_content(lines, "looking: ValueError [", type(error).__name__)


def test_an_error_of_ours_or_of_a_server_is_told_as_it_is() -> None:
    assert said(ProjectionistError("no such stream", remedy="Make it")) == "no such stream. Make it"
    assert said(ConnectionRefusedError("refused")) == "ConnectionRefusedError: refused"
    denied = asyncpg.InsufficientPrivilegeError("permission denied for table orders")
    assert said(denied) == "InsufficientPrivilegeError: permission denied for table orders"

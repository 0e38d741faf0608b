"""The doctor names what is wrong and what mends it, and says nothing where all is well."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from nats.js.api import RePublish, StreamConfig, StreamSource, SubjectTransform
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.looking_up import TABLE, looking_up
from tests.support.process import projectionist
from tests.support.scrape import free_port
from tests.support.several_rows import several
from tests.support.shop import OrderNoted, OrderPlaced, mended, shop
from tests.support.shop_app import APP, environment

from projectionist.core.settings.settings import Run, Settings, Telemetry
from projectionist.ops.doctor.check import Check
from projectionist.ops.doctor.examine import Examined, examine
from projectionist.ops.inspect.project_status import look
from projectionist.outbox import Intent, Outbox
from projectionist.outbox.providers import NatsPublish, Smtp
from projectionist.projections import Stream
from projectionist.runner import App
from projectionist.runner.jetstream import api

pytestmark = pytest.mark.asyncio


async def examined(
    live: ConsumerHarness, *classes: type, settings: Settings | None = None, **policy: Any
) -> Examined:
    found = settings or live.settings
    changed = msgspec.structs.replace(found.consumer_defaults, **policy)
    app = App(projections=classes, providers={"email": Smtp})
    settled = msgspec.structs.replace(found, consumer_defaults=changed, run=Run())
    return await examine(app, app.definitions, settled)


def waits(found: Examined) -> dict[str, Check]:
    """What needs attention, by what it is about and called."""
    return {f"{check.about}: {check.name}": check for check in found.checks if check.level == "attention"}


async def healthy(live: ConsumerHarness, **shape: Any) -> type:
    """A consumer that has run, and is at the end of its stream."""
    s = shop(live.stream, **shape)
    cls: type = s.Orders
    await live.migrate(cls)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(cls)
    return cls


async def test_where_all_is_well_nothing_needs_attention(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    async with live.running(cls):
        await live.settled(cls)
        found = await examined(live, cls)
    assert waits(found) == {}
    assert found.well
    assert {"postgres: version", "nats: version", "Orders: lag", "Orders: retention"} <= {
        f"{check.about}: {check.name}" for check in found.checks
    }


async def test_streams_are_compared_with_what_the_app_declares(live: ConsumerHarness) -> None:
    name = live.stream.name
    there = Stream(name, f"{name}.order.{{id}}", source="shop-api")
    longer = Stream(name, "elsewhere.order.{id}", source="shop-api", duplicate_window_s=60)
    gone = Stream("NOT_THERE", "nowhere.{id}", source="shop-api")
    found = await examine(App(streams=[there, gone]), [], live.settings)
    assert waits(found)["stream NOT_THERE: there"].mend == "projectionist migrate --streams"
    assert f"stream {name}: declared" in {f"{check.about}: {check.name}" for check in found.checks}
    assert f"stream {name}: declared" not in waits(found)
    unlike = [
        (check.found, check.mend)
        for check in (await examine(App(streams=[longer]), [], live.settings)).checks
        if check.name == "declared"
    ]
    assert [found for found, _ in unlike] == [
        "duplicate_window_s is 120 and declared as 60: it is never lowered here",
        "it is to be: takes elsewhere.order.*",
    ]
    assert [mend.startswith(("Declare what", "projectionist migrate")) for _, mend in unlike] == [True, True]


async def test_the_questions_of_a_design_are_answered(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    answers = dict((await examined(live, cls)).questions["Orders"])
    assert len(answers) == 10
    assert (
        answers["What is the identity of an event?"] == "source and header ce-id, else aggregate and version"
    )
    assert answers["What are the keys of its side effects?"].startswith("consumer, event and slot (Receipt)")
    assert answers["What may a replay do?"].startswith('"no-effects"')
    memory = answers["How long is it remembered, and how long can it come back?"]
    assert memory == "by the inbox for 2592000 s, by its version for ever; the stream keeps it for ever"


class Announced(Intent, provider="events"):
    order_id: str


async def test_events_that_no_relay_will_publish_are_named(live: ConsumerHarness) -> None:
    shop_api, app = Outbox("shop-api"), App(providers={"events": NatsPublish})
    async with live.pool.acquire() as connection, connection.transaction():
        await shop_api.add(connection, Announced(order_id="1"), id="a", aggregate="order/1", version=1)
        await shop_api.add(connection, Announced(order_id="2"), id="b", aggregate="order/2")
    found = waits(await examine(app, (), live.settings))["outbox: versions"]
    assert found.found == "1 events for events lack their aggregate or version"
    assert "version=3" in found.mend


async def broken_code(live: ConsumerHarness, cls: type) -> None:
    """Newer code has run and this one is of the past."""
    await live.settle(mended(live.stream))


async def broken_durable(live: ConsumerHarness, cls: type) -> None:
    """Somebody else manages it."""
    js, name = live.nats.jetstream(), await inspection.durable_name(live)
    config = (await js.consumer_info(live.stream.name, name)).config
    config.ack_wait = 77
    await js.add_consumer(live.stream.name, config)


async def paused_durable(live: ConsumerHarness, cls: type) -> None:
    """Somebody has paused it."""
    name = await inspection.durable_name(live)
    body = b'{"pause_until":"2100-01-01T00:00:00Z"}'
    await live.nats.request(f"$JS.API.CONSUMER.PAUSE.{live.stream.name}.{name}", body)


async def limited_durable(live: ConsumerHarness, cls: type) -> None:
    """Somebody has limited what may be ordered at once."""
    name = await inspection.durable_name(live)
    await api.change_consumer(live.nats, live.stream.name, name, {"max_batch": 1})


async def broken_floor(live: ConsumerHarness, cls: type) -> None:
    """The durable is gone."""
    name = await inspection.durable_name(live)
    await live.nats.jetstream().delete_consumer(live.stream.name, name)


async def broken_stream(live: ConsumerHarness, cls: type) -> None:
    """The stream forgets."""
    await live.nats.jetstream().update_stream(
        name=live.stream.name, subjects=[live.stream.subjects], max_msgs_per_subject=1
    )


async def broken_subjects(live: ConsumerHarness, cls: type) -> None:
    """The stream takes nothing of ours any more."""
    await live.nats.jetstream().update_stream(
        name=live.stream.name, subjects=[live.stream.subject("customer")]
    )


async def broken_filter(live: ConsumerHarness, cls: type) -> None:
    """Somebody has narrowed it."""
    js, name = live.nats.jetstream(), await inspection.durable_name(live)
    config = (await js.consumer_info(live.stream.name, name)).config
    config.filter_subject = live.stream.subject("order", "o1")
    await js.add_consumer(live.stream.name, config)


async def no_stream(live: ConsumerHarness, cls: type) -> None:
    live.tampered = True
    await live.nats.jetstream().delete_stream(live.stream.name)


async def broken_window(live: ConsumerHarness, cls: type) -> None:
    await live.nats.jetstream().update_stream(
        name=live.stream.name, subjects=[live.stream.subjects], duplicate_window=5
    )


async def failed_event(live: ConsumerHarness, cls: type) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.publish(OrderNoted("bad"), "o1", 2)
    await live.settle(s.Orders)


async def unreadable_event(live: ConsumerHarness, cls: type) -> None:
    await live.publish_raw(b"x", {"ce-id": "torn"}, "o3")


def tables(*statements: str) -> Callable[[ConsumerHarness, type], Awaitable[None]]:
    async def broken(live: ConsumerHarness, cls: type) -> None:
        for statement in statements:
            await live.pool.execute(statement.replace("{s}", "projectionist"))

    return broken


BROKEN = {
    "newer code": (broken_code, "Orders: code", "projectionist run --allow-older-code"),
    "durable": (broken_durable, "Orders: durable", "something else manages this durable"),
    "durable paused": (paused_durable, "Orders: durable", "nats consumer resume"),
    "durable limited": (limited_durable, "Orders: durable", "have whatever limits"),
    "durable gone": (broken_floor, "Orders: durable", "it goes on at the floor"),
    "stream that forgets": (broken_stream, "Orders: stream", "keeps every event"),
    "subjects": (broken_subjects, "Orders: subjects", "What it holds is read on"),
    "filter": (broken_filter, "Orders: filter", "reads what was passed over"),
    "no stream": (no_stream, "stream {stream}: there", "Create stream"),
    "duplicate window": (broken_window, "stream {stream}: duplicate window", "120 s or more"),
    "failed head": (failed_event, "Orders: stuck", "projectionist parked list --consumer Orders"),
    "unreadable": (unreadable_event, "Orders: readable", "Mend the producer"),
    "migrations": (
        tables("delete from {s}.migrations where number = (select max(number) from {s}.migrations)"),
        "postgres: migrations",
        "projectionist migrate",
    ),
    "paused": (
        tables("update {s}.consumers set paused = true"),
        "Orders: paused",
        "projectionist resume Orders",
    ),
    "breaker": (
        tables(
            "update {s}.consumer_breakers set state = 'open', reason = '3 keys failed', until = 'infinity'"
        ),
        "Orders: breaker",
        "projectionist breaker reset Orders",
    ),
    "silent process": (
        tables(
            "insert into {s}.runners (consumer, instance, host, pid, beat)"
            " select number, gen_random_uuid(), 'web-1', 4711, now() - interval '10 minutes' from {s}.consumers"
        ),
        "processes: web-1:4711",
        "Look at the process",
    ),
    "slow batches": (
        tables("update {s}.runners set p99_ms = 9000, stopped = null"),
        "Orders: ack wait",
        "Set ack_wait_s of [consumers.Orders] to 27 or more",
    ),
    "autovacuum": (
        tables("alter table {s}.inbox set (autovacuum_enabled = false)"),
        "postgres: inbox",
        "reset (autovacuum_enabled)",
    ),
    "commits": (
        tables(
            "do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$"
        ),
        "postgres: synchronous_commit",
        "Set synchronous_commit = on",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_set_up_is_named_with_what_mends_it(live: ConsumerHarness, what: str) -> None:
    breaks, where, mend = BROKEN[what]
    cls = await healthy(live)
    await breaks(live, cls)
    live.tampered = True
    found = waits(await examined(live, cls))
    check = found[where.format(stream=live.stream.name)]
    assert mend in check.mend, check
    assert check.found


async def test_where_a_stream_has_its_messages_from_and_leads_them_to_is_noted(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    js, name, ours = live.nats.jetstream(), live.stream.name, live.stream.subjects
    await js.update_stream(
        StreamConfig(
            name=name,
            subjects=[ours],
            sources=[StreamSource(name="ELSEWHERE", filter_subject="elsewhere.>")],
            subject_transform=SubjectTransform(src="elsewhere.>", dest=f"{name}.>"),
            republish=RePublish(src=">", dest="on.>"),
        )
    )
    said = {check.name: check.found for check in (await examined(live, cls)).checks if check.level == "note"}
    assert said["sources"] == "messages come from ELSEWHERE too"
    assert said["transform"] == f"what comes as elsewhere.> is stored as {name}.>"
    assert said["republish"] == "what is stored as > is published on as on.>"


async def test_settings_that_cannot_be_kept_are_named(live: ConsumerHarness) -> None:
    cls = await healthy(live, sequence="unordered")
    found = waits(await examined(live, cls, retention_s=60.0, ack="after-store"))
    assert found["Orders: retention"].mend == 'Set retention_s of [consumers.Orders] to "forever"'
    assert "raises no alert" in found["Orders: monitored"].found


async def test_rows_that_are_found_below_a_shared_prefix_are_noted(live: ConsumerHarness) -> None:
    s = several(live.stream)
    await live.migrate(s.Lines, s.Stock)
    found = {(one.about, one.name): one for one in (await examined(live, s.Lines, s.Stock)).checks}
    assert found["Stock", "rows"].found.startswith("closed takes the rows that are there")
    assert ("Lines", "rows") not in found


async def test_events_without_an_id_are_a_fault_where_there_is_no_order(live: ConsumerHarness) -> None:
    cls = await healthy(live, sequence="unordered")
    headers = {"ce-type": "order.placed", "ce-aggregatetype": "order", "ce-aggregateid": "o9"}
    await live.publish_raw(b'{"customer":"ann","cents":1}', headers, "o9")
    found = waits(await examined(live, cls))
    assert found["Orders: identity"].found == "1 of the last 2 events come without an id of their producer"


async def test_sources_that_share_a_stream_without_a_rule_are_noted(live: ConsumerHarness) -> None:
    def noted(found: Examined) -> list[tuple[str, str]]:
        return [(check.level, check.found) for check in found.checks if check.name == "sources"]

    cls = await healthy(live)
    assert noted(await examined(live, cls)) == []
    await live.publish(OrderPlaced("bob", 1), "o2", 1, source="till")
    ((level, said),) = noted(await examined(live, cls))
    assert level == "note"
    assert said.startswith("shop, till publish to the stream, and each may speak for the others")
    everywhere = (live.stream.subjects,)
    assert noted(await examined(live, cls, sources={"shop": everywhere, "till": everywhere})) == []


async def test_events_that_a_new_rule_would_refuse_are_named(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    found = waits(await examined(live, cls, sources={"till": (live.stream.subjects,)}))
    assert "source: the source 'shop' is none of those" in found["Orders: readable"].found


async def test_a_stream_whose_messages_can_be_taken_out_is_noted(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    said = {check.name: check for check in (await examined(live, cls)).checks}["history"]
    assert (said.level, "deleted and purged by this user" in said.found) == ("note", True)


async def test_an_intent_without_a_provider_is_named(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    app = App(projections=[cls])
    found = waits(await examine(app, app.definitions, live.settings))
    assert "email" in found["Orders: providers"].found


async def test_servers_that_are_away_are_findings_and_the_rest_is_looked_at(live: ConsumerHarness) -> None:
    cls = await healthy(live)
    settings = live.settings
    tuned(live, url="postgresql://nobody@127.0.0.1:1/none")
    assert set(waits(await examined(live, cls))) == {"postgres: connection"}
    live.settings = settings
    tuned(live, nats="nats://127.0.0.1:1")
    assert set(waits(await examined(live, cls))) == {"nats: connection", "Orders: processes"}


async def test_the_command_says_it_and_ends_with_three_where_somebody_has_to_act(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)

    async def doctor(*words: str) -> tuple[int, str]:
        async with projectionist("doctor", APP, *words, env=environment(live)) as child:
            ended = await child.ended()
            return ended.code, ended.out

    code, text = await doctor("--consumer", "Spend")
    assert (code, "LOOK  Spend: processes: no process runs it now" in text) == (3, True)
    async with projectionist("run", APP, env=environment(live)) as process:
        await process.heard("worker.running", 2)
        code, text = await doctor("--consumer", "Spend")
    assert code == 0, text
    assert "Who is alerted?\n    nobody" in text
    await live.pool.execute("update projectionist.consumers set paused = true where name = 'Spend'")
    code, text = await doctor()
    assert code == 3
    assert "LOOK  Spend: paused: an operator has paused it\n      mend: projectionist resume Spend" in text
    code, text = await doctor("--json")
    assert json.loads(text)["well"] is False


async def test_a_fleet_that_exports_metrics_and_is_not_observed_needs_attention(
    live: ConsumerHarness,
) -> None:
    cls = await healthy(live)
    seen = msgspec.structs.replace(live.settings, telemetry=Telemetry(exporter="prometheus"))
    alone = msgspec.structs.replace(live.settings, telemetry=Telemetry(allow_unmonitored=True))

    async def of(settings: Settings) -> list[Check]:
        found = await examined(live, cls, settings=settings)
        return [check for check in found.checks if check.name == "observer"]

    (nothing_runs,) = await of(seen)
    assert nothing_runs.level == "note"
    async with live.running(cls):
        await live.settled(cls)
        (fleet,), (developing,) = await of(seen), await of(live.settings)
        assert (fleet.level, developing.level) == ("attention", "note")
        assert "`projectionist observe`" in fleet.mend
        assert await of(alone) == []
        shown = await look(seen)
        assert [part.shown for part in shown.parts if part.name == "observer"] == [
            "none: alerts about lag and intents cannot fire"
        ]
        assert shown.well, "it is told, and no reason for a script to fail"

        metrics = {"telemetry__exporter": "prometheus", "telemetry__listen": f"127.0.0.1:{free_port()}"}
        async with projectionist("observe", APP, env=environment(live, **metrics)) as child:
            await child.heard("telemetry.observed")
            assert [check.level for check in await of(seen)] == ["well"]
            parts = (await look(seen)).parts
            assert [part.shown for part in parts if part.name == "observer"] == ["connected"]


async def test_a_table_that_handlers_cannot_look_up_is_named(live: ConsumerHarness) -> None:
    taxed = looking_up(live.stream).Taxed
    await live.migrate(taxed)
    found = waits(await examined(live, taxed))["Taxed: lookups"]
    assert 'relation "public.tax_rates" does not exist' in found.found
    assert found.mend == "Make it as TaxRate declares it, and `grant select` to who runs this"
    await live.pool.execute(TABLE)
    checks = {(one.name, one.found, one.level) for one in (await examined(live, taxed)).checks}
    assert ("lookups", "public.tax_rates", "well") in checks

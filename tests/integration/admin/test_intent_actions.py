"""What operators see of intents and do to them, through the command line, and what the relay makes of it."""

from __future__ import annotations

from itertools import product
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from tests.support.outbox import FORGETS, SLOW, Outbox, answer, execute_in_silence, made, scripted
from tests.support.process import Ended, run_projectionist
from tests.support.servers import SCHEMA
from tests.support.waiting import eventually

from projectionist.core.digest import digest
from projectionist.core.postgres.statements import Statements
from projectionist.outbox.providers import Outcome

pytestmark = pytest.mark.asyncio
REVEAL = ("--reveal", "--reason", "ticket 7", "--actor", "ann")
QUOTA = digest("quota used up")


STATES = ("ready", "leased", "started", "unknown", "reconcile", "dead", "held")
DESTINATIONS = ("none", "closed", "open", "over", "from a clock that went back", "held")
CIRCUITS = """
    insert into projectionist.circuits (provider, destination, state, until, pause_s, held)
    select 'stub', name, state, clock_timestamp() + after * interval '1 hour', 7200, held
    from (values ('closed', 'closed', 1, null), ('open', 'open', 1, null), ('over', 'half_open', -1, null),
        ('from a clock that went back', 'open', 3, null), ('held', 'closed', 0, 'gone')) c (name, state, after, held)"""
LANES = """
    with written as (
        insert into projectionist.intents
            (key, consumer, source, id, slot, class, provider, destination, ordering, on_dead, body, hash)
        select concat_ws(' ', state, lease, wait, circuit, place), 0, 'shop', place, 's', 'Receipt', 'stub', circuit,
            concat_ws(' ', state, lease, wait, circuit), 'block', '', ''
        from unnest('{ready,leased,started,unknown,reconcile,dead,held}'::text[]) state,
            unnest('{-1,0,1}'::integer[]) lease, unnest('{-1,0,1}'::integer[]) wait,
            unnest('{none,closed,open,over,from a clock that went back,held}'::text[]) circuit,
            generate_series(1, 2) place
        returning *
    )
    insert into projectionist.outbox (seq, provider, destination, lane, place, state, lease_until, due)
    select seq, provider, destination, ordering, id::bigint,
        case id when '1' then split_part(key, ' ', 1) else 'ready' end,
        clock_timestamp() + nullif(split_part(key, ' ', 2)::integer, 0) * interval '1 hour',
        clock_timestamp() + nullif(split_part(key, ' ', 3)::integer, 0) * interval '1 hour'
    from written"""
"""Lanes of two, whose heads are in each state, with a lease, a wait and a circuit that are over, there or not."""


async def cli(harness: Outbox, *arguments: str) -> Ended:
    assert harness.settings.postgres.url is not None
    return await run_projectionist(
        "outbox", *arguments, PROJECTIONIST_POSTGRES__URL=harness.settings.postgres.url.reveal()
    )


async def seen(harness: Outbox, *arguments: str) -> Any:
    ended = await cli(harness, *arguments, "--json")
    assert ended.code in (0, 3), ended.err
    return msgspec.json.decode(ended.out)


async def acts(harness: Outbox) -> list[tuple[str, str]]:
    """What the audit trail holds."""
    assert harness.settings.postgres.url is not None
    url = harness.settings.postgres.url.reveal()
    ended = await run_projectionist("audit", "--json", PROJECTIONIST_POSTGRES__URL=url)
    return [(act["object"], act["reason"]) for act in msgspec.json.decode(ended.out)["acts"]]


async def dead(harness: Outbox, count: int = 1, *, on_dead: str = "pass") -> list[str]:
    """Intents that the provider has refused."""
    stub = scripted()
    keys = [await harness.want(lane=f"order/{n}", on_dead=on_dead) for n in range(count)]
    for key in keys:
        stub.script[key] = [answer(Outcome.REFUSED, reason="quota used up", status="402")]
    async with harness.relaying(made(stub)):
        await harness.all_become("dead")
    return keys


async def in_doubt(harness: Outbox) -> str:
    """An intent of which nobody knows whether it was carried out."""
    stub = scripted(FORGETS)
    key = await harness.want(lane="order/1")
    stub.script[key] = [execute_in_silence]
    async with harness.relaying(made(stub)):
        await harness.becomes(key, "reconcile")
    return key


async def test_the_list_is_grouped_by_error_and_says_what_waits_for_a_person(harness: Outbox) -> None:
    assert await seen(harness, "list") == {"groups": [], "attention": []}
    assert (await cli(harness, "list")).code == 0
    keys = await dead(harness, 3)
    ready = await harness.want("other")
    groups = (await seen(harness, "list"))["groups"]
    assert [(g["count"], g["state"], g["provider"], g["error"], g["sample"]) for g in groups] == [
        (3, "dead", "stub", f"refused 402 [{QUOTA}]", keys[0]),
        (1, "ready", "other", None, ready),
    ]
    ended = await cli(harness, "list")
    assert ended.code == 3
    assert f"refused 402 [{QUOTA}]" in ended.out
    assert "quota used up" in (await cli(harness, "list", *REVEAL)).out


async def test_filters_choose(harness: Outbox) -> None:
    await dead(harness, 2)
    other = await harness.want("other", destination="acme", name="Hook")
    for filters in (
        ["--provider", "other"],
        ["--destination", "acme"],
        ["--intent", "Hook"],
        ["--state", "ready"],
    ):
        assert [row["key"] for row in (await seen(harness, "list", "--each", *filters))["intents"]] == [other]
    for error in ("quota used up", f"refused 402 [{QUOTA}]", QUOTA):
        assert len((await seen(harness, "list", "--each", "--error", error))["intents"]) == 2
    assert (await seen(harness, "list", "--each", "--older-than", "3600"))["intents"] == []
    assert len((await seen(harness, "list", "--each", "--limit", "1"))["intents"]) == 1


async def test_one_intent_is_shown_with_its_attempts_and_without_its_content(harness: Outbox) -> None:
    (key,) = await dead(harness)
    shown = await seen(harness, "show", key)
    (attempt,) = shown["attempts"]
    assert (shown["state"], attempt["status"], attempt["outcome"]) == ("dead", "402", "refused")
    assert "body" not in shown
    assert "quota used up" not in (await cli(harness, "show", key)).out
    assert await acts(harness) == []
    assert (await cli(harness, "show", key, "--reveal")).code == 2
    assert (await seen(harness, "show", key, *REVEAL))["body"] == '{"n":1}'
    assert "quota used up" in (await cli(harness, "show", key, *REVEAL)).out
    assert await acts(harness) == [(f"intent {key}", "ticket 7")] * 2


async def test_a_sample_goes_before_the_group(harness: Outbox) -> None:
    keys = await dead(harness, 3)
    first = await seen(harness, "retry", "--state", "dead", "--reason", "quota raised")
    assert first == {"changed": [keys[0]], "unchanged": {}, "left": 2}
    stub = scripted()
    async with harness.relaying(made(stub)):
        await harness.becomes(keys[0], "sent")
        rest = await seen(harness, "retry", "--state", "dead", "--reason", "the sample went well", "--all")
        assert (sorted(rest["changed"]), rest["left"]) == (sorted(keys[1:]), 0)
        await harness.all_become("sent")
    acts = (await seen(harness, "show", keys[1], "--actor", "ada"))["acts"]
    assert [(act["action"], act["reason"]) for act in acts] == [("retry", "the sample went well")]
    audit = await harness.connection.fetchrow("select * from projectionist.audit order by number limit 1")
    assert audit is not None
    assert (audit["object"], audit["detail"]) == (
        f"intent {keys[0]}",
        f'{{"error": "{QUOTA}", "state": "dead"}}',
    )


async def test_a_retry_sends_the_same_key_and_bytes_with_a_new_count_of_tries(harness: Outbox) -> None:
    (key,) = await dead(harness)
    await cli(harness, "retry", key, "--reason", "quota raised")
    row = await harness.row(key)
    assert (row["state"], row["attempt"], row["spent"]) == ("ready", 1, 0)
    stub = scripted()
    async with harness.relaying(made(stub)):
        await harness.becomes(key, "sent")
    assert [request.key for request in stub.sent] == [key]


async def test_a_dead_one_that_was_passed_goes_to_the_end_of_its_lane(harness: Outbox) -> None:
    (first,) = await dead(harness)
    second = await harness.want(lane="order/0")
    await cli(harness, "retry", first, "--reason", "quota raised")
    third = await harness.want(lane="order/0")
    stub = scripted()
    async with harness.relaying(made(stub)):
        await harness.all_become("sent")
    assert [request.key for request in stub.sent] == [second, first, third]


async def test_a_dead_one_that_blocks_is_sent_first_or_discarded(harness: Outbox) -> None:
    (first,) = await dead(harness, on_dead="block")
    second = await harness.want(lane="order/0")
    stub = scripted()
    async with harness.relaying(made(stub)) as relay:
        assert (await cli(harness, "discard", first, "--reason", "customer left")).code == 0
        relay.wake()
        await harness.becomes(second, "sent")
    assert await harness.state(first) == "discarded"
    assert stub.executions == {second: 1}


async def test_lanes_that_stand_are_told_with_their_head_and_until_when(harness: Outbox) -> None:
    assert await seen(harness, "lanes") == {"lanes": []}
    stub = scripted()
    blocked = await harness.want(lane="order/0", on_dead="block")
    later, passed = await harness.want(lane="order/1"), await harness.want(lane="order/2")
    stub.script = {
        key: [answer(Outcome.REFUSED, reason="quota used up", status="402")] for key in (blocked, passed)
    }
    stub.script[later] = [answer(Outcome.RETRY, reason="busy", status="503")]

    async def waits() -> bool:
        return (await harness.row(later))["due"] is not None

    async with harness.relaying(made(stub, retry=SLOW)):
        for key in (blocked, passed):
            await harness.becomes(key, "dead")
        await eventually(waits)
    for lane, count in (("order/0", 2), ("order/1", 1), ("order/2", 3), ("order/3", 2)):
        for _ in range(count):
            await harness.want(lane=lane)

    lanes = (await seen(harness, "lanes"))["lanes"]
    assert [(one["ordering"], one["behind"], one["state"], one["key"]) for one in lanes] == [
        ("order/0", 2, "dead", blocked),
        ("order/1", 1, "ready", later),
    ], "a dead head that is passed, and one that is to be sent, hold nobody"
    assert [one["error"] for one in lanes] == [f"refused 402 [{QUOTA}]", f"retry 503 [{digest('busy')}]"]
    assert [one["due"] is None for one in lanes] == [True, False]
    assert len((await seen(harness, "lanes", "--limit", "1"))["lanes"]) == 1
    assert (await seen(harness, "lanes", "--provider", "other"))["lanes"] == []
    first, every = await cli(harness, "lanes", "--limit", "1"), await cli(harness, "lanes")
    assert (first.code, every.code) == (3, 3)
    assert ("--limit shows more" in first.err, "--limit shows more" in every.err) == (True, False)
    assert (await cli(harness, "lanes", "--state", "dead")).code == 2


async def test_a_lane_stands_just_where_no_relay_takes_its_head_up_or_has_it(harness: Outbox) -> None:
    await harness.connection.execute(CIRCUITS)
    await harness.connection.execute(LANES)
    changing = harness.connection.transaction()
    await changing.start()
    rows = await harness.connection.fetch(
        Statements("projectionist.outbox", SCHEMA)["lease_intents"],
        *("stub", "", 1_000, 10_000, uuid4(), 60.0, [], [], 10_000, True),
    )
    taken = {row["key"] for row in rows}
    await changing.rollback()
    assert len(taken) > 50
    lanes = (await seen(harness, "lanes", "--limit", "10000"))["lanes"]
    heads = {
        f"{state} {lease} {wait} {circuit} 1": lease == 1 and state in ("leased", "started", "unknown")
        for state, lease, wait, circuit in product(STATES, (-1, 0, 1), (-1, 0, 1), DESTINATIONS)
    }
    at_work = {key for key, is_at_work in heads.items() if is_at_work}
    assert {one["key"] for one in lanes} == heads.keys() - taken - at_work
    assert all(one["due"] or one["state"] in ("held", "dead", "reconcile") for one in lanes), (
        "for a time or somebody"
    )


async def test_an_intent_in_a_state_of_a_newer_version_is_shown(harness: Outbox) -> None:
    await harness.connection.execute("alter table projectionist.outbox drop constraint outbox_state_check")
    for lane in ("order/0", "order/1"):
        for _ in range(2):
            await harness.want(lane=lane)
    await harness.connection.execute(
        "update projectionist.outbox set state = 'postponed', due = clock_timestamp() + interval '1 hour' where seq = 1"
    )
    listed = await seen(harness, "list")
    assert {one["state"]: one["count"] for one in listed["groups"]} == {"ready": 3, "postponed": 1}
    assert listed["attention"][0]["text"].startswith("4 intents wait"), "which goes on by itself"
    assert [one["state"] for one in (await seen(harness, "lanes"))["lanes"]] == ["postponed"]


async def test_what_was_carried_out_is_resolved_as_sent_and_those_behind_it_go_on(harness: Outbox) -> None:
    key = await in_doubt(harness)
    behind = await harness.want(lane="order/1")
    await cli(harness, "resolve", key, "--sent", "--provider-id", "ch_7", "--reason", "seen in the dashboard")
    row = await harness.row(key)
    assert (row["state"], row["open"], row["provider_id"]) == ("sent", False, "ch_7")
    stub = scripted()
    async with harness.relaying(made(stub)):
        await harness.becomes(behind, "sent")
    assert stub.executions == {behind: 1}


@pytest.mark.parametrize("act", [["resolve", "--not-sent"], ["retry"]])
async def test_what_was_not_carried_out_is_sent_again_knowingly(harness: Outbox, act: list[str]) -> None:
    key = await in_doubt(harness)
    verb, *rest = act
    await cli(harness, verb, key, *rest, "--reason", "not in the dashboard")
    stub = scripted(FORGETS)
    async with harness.relaying(made(stub)):
        await harness.becomes(key, "sent")
    assert stub.executions == {key: 1}
    (recorded,) = (await seen(harness, "show", key))["acts"]
    assert recorded["action"] == ("retry" if verb == "retry" else "resolve-not-sent")


async def test_a_retry_does_not_wait_for_what_is_due_later(harness: Outbox) -> None:
    stub = scripted()
    key = await harness.want()
    stub.script[key] = [answer(Outcome.RETRY)]
    async with harness.relaying(made(stub, retry=SLOW)):
        await eventually(lambda: harness.attempts(key))
        await eventually(lambda: due(harness, key))
    await cli(harness, "retry", key, "--reason", "the provider is back")
    assert (await harness.row(key))["spent"] == 1, "its tries are not given back"
    async with harness.relaying(made(stub, retry=SLOW)):
        await harness.becomes(key, "sent")


async def test_a_held_destination_is_opened_by_a_retry(harness: Outbox) -> None:
    stub = scripted()
    first = await harness.want(destination="acme", lane="a")
    stub.script[first] = [answer(Outcome.REFUSED, hold=True)]
    async with harness.relaying(made(stub)) as relay:
        await harness.becomes(first, "held")
        await eventually(lambda: harness.connection.fetchval("select held from projectionist.circuits"))
        second = await harness.want(destination="acme", lane="b")
        (group,) = (
            await seen(harness, "list", "--state", "held", "--destination", "acme", "--error", "refused")
        )["groups"]
        assert group["count"] == 1
        assert len((await seen(harness, "list", "--each", "--state", "held"))["intents"]) == 2, (
            "the one behind is shown too"
        )
        await cli(harness, "retry", "--state", "held", "--all", "--reason", "acme is back")
        relay.wake()
        await harness.becomes(first, "sent")
        await harness.becomes(second, "sent")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["retry", "k"], 2, "retry needs a reason"),
        (["retry", "--reason", "x"], 2, "retry takes keys or filters"),
        (["retry", "k", "--state", "dead", "--reason", "x"], 2, "retry takes keys or filters"),
        (["resolve", "k", "--reason", "x"], 2, "resolve needs an outcome"),
        (["show"], 2, "show takes one KEY"),
        (["list", "k"], 2, "list takes no KEY"),
        (["list", "--state", "odd"], 2, "there is no state 'odd'"),
        (["retry", "k", "--reason", "x"], 1, "no intent has the key 'k'"),
        (["show", "k"], 1, "no intent has the key 'k'"),
        (["retry", "k", "--reason", "x", "--actor", " "], 1, "an act needs an actor and a reason"),
    ],
)
async def test_a_call_that_means_nothing_says_what_to_do(
    harness: Outbox, arguments: list[str], code: int, error: str
) -> None:
    ended = await cli(harness, *arguments)
    assert (ended.code, ended.err.startswith(f"error: {error}")) == (code, True), ended.err


async def test_what_is_settled_is_not_changed_and_said_so(harness: Outbox) -> None:
    key = await harness.want()
    async with harness.relaying(made(scripted())):
        await harness.becomes(key, "sent")
    for verb in (["retry"], ["discard"], ["resolve", "--not-sent"]):
        ended = await cli(harness, verb[0], key, *verb[1:], "--reason", "x")
        assert ended.code == 3
        assert f"{key} is sent" in ended.out
    assert await harness.state(key) == "sent"
    assert await harness.connection.fetchval("select count(*) from projectionist.audit") == 0


async def due(harness: Outbox, key: str) -> object:
    return (await harness.row(key))["due"]

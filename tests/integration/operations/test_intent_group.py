"""Groups of intents as operations: sent again in samples, or discarded, each intent once, whoever carries it out."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.outbox import SLOW, Outbox, answer, made, scripted
from tests.support.process import Ended, projectionist, run_projectionist
from tests.support.waiting import HANG_S, eventually

from projectionist.outbox.providers import Outcome

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "quota raised", "--actor", "ann")
RETRY = ("outbox", "retry", "--state", "dead", "--all", *WHY, "--wait", f"{HANG_S}", "--rate", "10000")
DISCARD = ("outbox", "discard", "--state", "dead", "--all", *WHY)


def environment(harness: Outbox) -> dict[str, str]:
    assert harness.settings.postgres.url is not None
    return {"PROJECTIONIST_POSTGRES__URL": harness.settings.postgres.url.reveal()}


async def cli(harness: Outbox, *words: str) -> Ended:
    return await run_projectionist(*words, cwd=None, **environment(harness))


async def seen(harness: Outbox, *words: str) -> Any:
    ended = await cli(harness, *words, "--json")
    assert ended.code in (0, 3), ended.err
    return msgspec.json.decode(ended.out)


async def dead(harness: Outbox, count: int, *, stub: Any = None) -> list[str]:
    """Intents that the provider has refused, of one group."""
    stub = stub or scripted()
    keys = [await harness.want(lane=f"order/{n}", on_dead="pass") for n in range(count)]
    for key in keys:
        stub.script[key] = [answer(Outcome.REFUSED, reason="quota used up", status="402")]
    async with harness.relaying(made(stub)):
        await harness.all_become("dead")
    return keys


async def test_a_group_is_sent_again_in_growing_samples(harness: Outbox) -> None:
    keys = await dead(harness, 8)
    stub = scripted()
    stub.script[keys[3]] = [answer(Outcome.REFUSED, reason="no such customer")]
    async with harness.relaying(made(stub)):
        done = await seen(harness, *RETRY)

    assert (done["changed"], done["failed"], done["left"]) == (keys, [keys[3]], 0)
    shown = await seen(harness, "operations", "show", "1")
    assert [(one["items"], one["done"], one["failed"]) for one in shown["samples"]] == [
        (1, 1, 0),
        (5, 4, 1),
        (2, 2, 0),
    ]
    assert [(one["key"], one["state"]) for one in shown["not_done"]] == [(keys[3], "failed")]
    assert (shown["chosen"], shown["state"]) == ({"state": "dead"}, "done")
    assert "outbox retry state=dead" in (await cli(harness, "operations", "list")).out
    assert (await harness.states())["sent"] == 7
    assert await harness.acts("retry") == 8


async def test_the_rest_is_left_where_none_of_a_sample_is_taken(harness: Outbox) -> None:
    stub = scripted()
    keys = await dead(harness, 4, stub=stub)
    stub.script[keys[0]] = [answer(Outcome.REFUSED, reason="quota used up")]
    async with harness.relaying(made(stub)):
        ended = await cli(harness, *RETRY)
    assert ended.code == 3
    assert "none of a sample got through, so the rest of its group was left alone; 3 left" in ended.err
    assert await harness.acts("retry") == 1
    assert await harness.states() == {"dead": 4}


async def test_one_more_attempt_that_failed_is_known_before_the_last_one(harness: Outbox) -> None:
    stub = scripted()
    keys = await dead(harness, 2, stub=stub)
    stub.script[keys[0]] = [answer(Outcome.RETRY)]
    async with harness.relaying(made(stub, retry=SLOW)):
        done = await seen(harness, *RETRY)
    assert (done["changed"], done["failed"], done["left"]) == ([keys[0]], [keys[0]], 1)
    assert await harness.states() == {"ready": 1, "dead": 1}


@pytest.mark.parametrize(("moment", "time"), [("operation.acting", 2), ("operation.stepped", 3)])
async def test_killed_at_any_moment_it_is_taken_up_and_discards_each_once(
    harness: Outbox, tmp_path: Path, moment: str, time: int
) -> None:
    keys = await dead(harness, 4)
    async with projectionist(
        *DISCARD, cwd=tmp_path, env=environment(harness), kill_at={moment: time}
    ) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await harness.connection.execute("update projectionist.operations set beat = beat - interval '1 hour'")
    assert (await cli(harness, "operations", "take-up", "1", *WHY)).code == 0
    shown = await seen(harness, "operations", "show", "1")
    assert (shown["state"], shown["done"], shown["left"]) == ("done", 4, 0)
    assert await harness.states() == {"discarded": len(keys)}
    assert await harness.acts("discard") == 4


async def test_what_was_settled_by_another_meanwhile_is_refused_and_told(
    harness: Outbox, tmp_path: Path
) -> None:
    keys = await dead(harness, 3)
    async with projectionist(
        *DISCARD, cwd=tmp_path, env=environment(harness), pause_at={"operation.begun": 1}
    ) as child:
        await child.paused("operation.begun")
        await cli(harness, "outbox", "resolve", keys[1], "--sent", *WHY)
        await cli(harness, "outbox", "retry", keys[2], *WHY)
        child.signal(signal.SIGCONT)
        ended = await child.ended()
    assert ended.code == 3
    assert f"{keys[1]}: it is sent by now" in ended.out
    assert f"{keys[2]}: it is ready by now" in ended.out
    assert await harness.states() == {"discarded": 1, "sent": 1, "ready": 1}


async def test_a_group_is_stopped_from_elsewhere(harness: Outbox, tmp_path: Path) -> None:
    await dead(harness, 3)
    slow = (*DISCARD, "--rate", "0.001")
    async with projectionist(*slow, cwd=tmp_path, env=environment(harness)) as child:

        async def begun() -> bool:
            return await harness.acts("discard") == 1

        await eventually(begun)
        assert "asked to stop" in (await cli(harness, "operations", "stop", "1", *WHY)).out
        assert (await child.ended()).code == 3
    shown = await seen(harness, "operations", "show", "1")
    assert (shown["state"], shown["done"], shown["left"]) == ("stopped", 1, 2)


@pytest.mark.parametrize("words", [["--rate", "0"], ["--rate", "nan"], ["--wait", "-1"], ["--limit", "0"]])
async def test_a_pace_that_means_nothing_is_refused(harness: Outbox, words: list[str]) -> None:
    ended = await cli(harness, *RETRY, *words)
    assert (ended.code, "not below zero" in ended.err) == (2, True)

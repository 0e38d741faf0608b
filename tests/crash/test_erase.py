"""`projectionist erase` as a real process, killed in the middle while a runner works: the next call ends it."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest
from nats.js.errors import NotFoundError
from tests.crash.test_run import stop
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import WORD, contents, history, holders
from tests.support.process import projectionist
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.shop_app import APP, environment

pytestmark = pytest.mark.asyncio

ERASE = ("erase", APP, "--aggregate", "order/o1", "--stream", "--reason", "ticket 4711")
POINTS = ("emptying", "file_written", "message_deleted")
"""Decided, and inside the transaction that empties; before a file has its name; between two messages."""


def holds(text: str) -> bool:
    """Return whether the word stands there, or its bytes do."""
    return WORD in text or WORD.encode().hex() in text


async def stored(live: ConsumerHarness) -> list[str]:
    """Return the body of each message of the stream."""
    stream, found = live.nats.jetstream(), []
    for seq in range(1, (await stream.stream_info(live.stream.name)).state.last_seq + 1):
        with suppress(NotFoundError):
            found.append(((await stream.get_msg(live.stream.name, seq)).data or b"").decode())
    return found


@pytest.mark.parametrize("point", POINTS)
async def test_an_erase_killed_in_the_middle_beside_a_runner_is_ended_by_the_next_call(
    live: ConsumerHarness, tmp_path: Path, point: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await history(live, tmp_path, s.Orders, s.Spend)
    assert await holders(live, WORD)
    assert any(map(holds, await stored(live)))
    keys = await inspection.rows(live, "intents", "key", order="key")
    env = environment(live, retention__archive="files", retention__archive_folder=str(tmp_path))
    async with projectionist("run", APP, env=env) as runner:
        await runner.heard("worker.running", 2)
        async with projectionist(*ERASE, env=env, kill_at={f"erase.{point}": 1}) as doomed:
            killed = await doomed.ended()
            assert killed.code == -signal.SIGKILL, killed.err
        await live.publish(OrderPlaced("bob", 7), "o3", 1)
        await live.settled(s.Orders, s.Spend)
        await live.assert_sound()
        async with projectionist(*ERASE, env=env) as again:
            done = await again.ended()
        assert done.code == 0, done.err
        await live.publish(OrderNoted("anew"), "o1", 2, id="e2")
        await live.settled(s.Orders, s.Spend)
        await stop(runner)
        said = [killed.out, killed.err, done.out, done.err, runner.out, runner.err]

    texts = contents(tmp_path)
    assert {path.suffix for path in texts} == {".jsonl"}
    assert [text for text in (*texts.values(), *said, *await stored(live)) if holds(text)] == []
    assert await holders(live, WORD) == []
    assert [row[0] for row in await live.rows("orders")] == ["o2", "o3"]
    assert await live.rows("spend") == [("ann", 1, 5), ("bob", 1, 7)]
    assert await inspection.rows(live, "intents", "key", order="key") == keys
    assert await live.unaccounted(s.Orders) == await live.unaccounted(s.Spend) == []
    for cls in (s.Orders, s.Spend):
        found = await RebuildHarness(live).verify(cls)
        assert (found.drifted, found.unsure, found.undecidable) == (0, 0, 0)
    live.tampered = True  # messages are gone from the stream

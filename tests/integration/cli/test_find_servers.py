"""Which servers a command finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Servers
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import HANG_S

from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Settings
from projectionist.ops.cli.find_servers import settings
from projectionist.ops.embedded import temporary
from projectionist.outbox.publishing.publisher import Published
from projectionist.runner import App


def test_the_file_of_a_folder_above_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "projectionist.toml").write_text(
        'app = "shop.app:app"\n[postgres]\nurl = "postgresql://db.example/shop"'
    )
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    assert settings().app == "shop.app:app"


def test_without_urls_the_servers_of_the_project_are_used_and_named(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".projectionist").symlink_to(servers._servers.home)
    monkeypatch.chdir(tmp_path)
    found = settings()
    assert (found.postgres.url, found.nats.url) == (Url(servers.postgres_url), (Url(servers.nats_url),))
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"note: using {Url(servers.postgres_url)} and {Url(servers.nats_url)} of `projectionist dev`"
    ]


def test_a_server_that_is_down_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary(durable=False) as servers:
        (tmp_path / ".projectionist").symlink_to(servers.home)
        monkeypatch.chdir(tmp_path)
        assert settings().nats.url
        servers.down()
        assert settings() == Settings()


@pytest.mark.asyncio
async def test_who_waits_in_a_request_finds_the_servers_that_the_processes_find(
    live: ConsumerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks PostgreSQL and NATS: of one the settings have the URL, the other is that of `projectionist dev`."""
    (tmp_path / ".projectionist").symlink_to(live.servers._servers.home)
    (tmp_path / "projectionist.toml").write_text(f'[postgres]\nurl = "{live.database}"')
    monkeypatch.chdir(tmp_path)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    answer = await App(projections=[s.Orders]).wait_for(
        s.Orders, ack=Published(live.stream.name, seq, duplicate=False), timeout_s=HANG_S
    )
    assert answer.is_applied


def test_where_no_servers_run_nothing_is_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings() == Settings()
    assert list(tmp_path.iterdir()) == []

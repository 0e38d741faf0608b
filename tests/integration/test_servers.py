"""Which servers a command finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.lab import Lab

from projectionist.core.secret import Url
from projectionist.core.settings import Settings
from projectionist.ops.servers import settings


def test_the_file_of_a_folder_above_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "projectionist.toml").write_text(
        'app = "shop.app:app"\n[postgres]\nurl = "postgresql://db.example/shop"'
    )
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    assert settings().app == "shop.app:app"


def test_without_urls_the_servers_of_the_project_are_used_and_named(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".projectionist").symlink_to(lab._servers.home)
    monkeypatch.chdir(tmp_path)
    found = settings()
    assert (found.postgres.url, found.nats.url) == (Url(lab.postgres_url), (Url(lab.nats_url),))
    told = capsys.readouterr().err
    assert f"postgres.url is not set, using {Url(lab.postgres_url)}" in told
    assert f"nats.url is not set, using {lab.nats_url}" in told


def test_where_no_servers_run_nothing_is_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings() == Settings()
    assert list(tmp_path.iterdir()) == []

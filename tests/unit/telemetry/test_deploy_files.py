"""Dashboards are what Grafana takes, and what the compose file puts together is all there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from projectionist.core.settings.settings import load

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "ops/deploy"
BOARDS = {path.name: json.loads(path.read_text("utf-8")) for path in (ROOT / "ops/dashboards").glob("*.json")}
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
PANELS = {"bargauge", "gauge", "heatmap", "piechart", "stat", "table", "timeseries"}
COLUMNS = 24


def mounts(service: str) -> dict[str, Path]:
    """What a service sees, by the place where it sees it."""
    pairs = [volume.split(":")[:2] for volume in SERVICES[service].get("volumes", ())]
    return {inside: (DEPLOY / outside).resolve() for outside, inside in pairs}


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_dashboard_is_of_panels_that_grafana_knows_each_in_its_place(name: str) -> None:
    board = BOARDS[name]
    panels, places = board["panels"], [panel["gridPos"] for panel in board["panels"]]
    assert isinstance(board["schemaVersion"], int)
    assert {panel["type"] for panel in panels} <= PANELS
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["targets"] for panel in panels)
    for place in places:
        assert 0 <= place["x"] < place["x"] + place["w"] <= COLUMNS
        assert place["h"] > 0
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_dashboard_uses_the_variables_that_it_declares(name: str) -> None:
    board = BOARDS[name]
    declared = {one["name"] for one in board["templating"]["list"]}
    for panel in board["panels"]:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        used = set(re.findall(r"\$\{?(\w+)", " ".join(target["expr"] for target in panel["targets"])))
        assert {word for word in used if not word.startswith("__")} <= declared, panel["title"]


def test_dashboards_are_told_apart() -> None:
    for key in ("uid", "title"):
        assert len({board[key] for board in BOARDS.values()}) == len(BOARDS)


def test_what_the_compose_file_mounts_is_there_and_nothing_is_open_to_others() -> None:
    for name, service in SERVICES.items():
        assert all(path.exists() for path in mounts(name).values()), name
        assert set(service.get("depends_on", ())) <= SERVICES.keys(), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def test_services_of_the_compose_file_ask_each_other_by_names_that_are_there() -> None:
    for path in DEPLOY.glob("*.yaml"):
        if path.name != "compose.yaml":
            known = {*SERVICES, "localhost", "0.0.0.0", "127.0.0.1"}  # noqa: S104  a collector's own place
            assert set(re.findall(r"\b([\w.]+):\d{4,5}\b", path.read_text("utf-8"))) <= known, path.name
    [provider] = yaml.safe_load((DEPLOY / "grafana-dashboards.yaml").read_text("utf-8"))["providers"]
    assert mounts("grafana")[provider["options"]["path"]] == ROOT / "ops/dashboards"


def test_the_observer_of_the_compose_file_has_settings_that_are_taken() -> None:
    """Its servers are those beside it, and Prometheus scrapes it where it listens."""
    env = SERVICES["observe"]["environment"]
    found = load(None, env)
    assert found.telemetry.exporter == "prometheus"
    assert found.postgres.url is not None
    for name in ("POSTGRES", "NATS"):
        assert urlsplit(env[f"PROJECTIONIST_{name}__URL"]).hostname == name.lower()
        assert name.lower() in SERVICES["observe"]["depends_on"]
    jobs = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text("utf-8"))["scrape_configs"]
    targets = [target for job in jobs for one in job["static_configs"] for target in one["targets"]]
    assert f"observe:{str(found.telemetry.listen).partition(':')[2]}" in targets


def test_images_of_the_compose_file_are_named_by_version() -> None:
    for name, service in SERVICES.items():
        assert re.search(r":v?\d+\.\d+[\w.-]*$", service["image"]), name


def test_nobody_gets_into_the_compose_file_without_the_password() -> None:
    """It has none of its own: without one nothing starts."""
    assert SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${PASSWORD:?")
    assert SERVICES["nats"]["command"][-2:] == ["--auth", "${PASSWORD}"]
    assert SERVICES["grafana"]["environment"] == {"GF_SECURITY_ADMIN_PASSWORD": "${PASSWORD}"}


HARDENING = {
    "UMask=0077",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "PrivateUsers=yes",
    "PrivateIPC=yes",
    "ProtectProc=invisible",
    "ProcSubset=pid",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectControlGroups=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "RemoveIPC=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "StateDirectory=projectionist",
}
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_a_unit_gives_its_process_no_more_than_it_needs(unit: Path) -> None:
    lines = unit.read_text("utf-8").splitlines()
    assert set(lines) >= HARDENING
    assert "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX" in lines
    assert any(line.startswith("IPAddressDeny=169.254.0.0/16 ") for line in lines) == ("relay" in unit.name)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here to judge its units")
def test_systemd_finds_little_that_a_unit_leaves_open(unit: Path) -> None:
    """Its measure goes from 0 to 10; the threshold is a tenth of it."""
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_a_unit_hands_secrets_out_in_files_that_the_settings_take(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text("utf-8")
    given = dict(re.findall(r"(PROJECTIONIST_\w+)=(\S+)", re.sub(r"^#.*", "", text, flags=re.MULTILINE)))
    for name in re.findall(r"^LoadCredential=(\w+):", text, re.MULTILINE):
        (tmp_path / name).write_text("s3cret")
    env = {name: value.replace("%d", str(tmp_path)).replace("%i", "1") for name, value in given.items()}
    found = load(None, env | {"PROJECTIONIST_POSTGRES__URL": "postgresql://shop@db.example/shop"})
    assert found.nats.token is not None
    assert found.postgres.url is not None
    assert found.postgres.url.reveal() == "postgresql://shop:s3cret@db.example/shop"

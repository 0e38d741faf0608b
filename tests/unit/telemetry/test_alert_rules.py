"""Rules and dashboards ask for what processes really show, and each rule leads to a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from projectionist.core.settings.settings import Alerts, FleetAlerts
from projectionist.core.states import IncidentKind
from projectionist.core.telemetry import metrics, names
from projectionist.core.telemetry.instruments import METRICS, Instrument, scraped

ROOT = Path(__file__).parents[3]
RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "ops/alerts/projectionist.yml").read_text("utf-8"))[
    "groups"
][0]["rules"]
DASHBOARDS = sorted((ROOT / "ops/dashboards").glob("*.json"))
SHOWN = {scraped(metric): metric for metric in METRICS.values()}
ALWAYS = {"job", "instance", "le"}


def queries() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for path in DASHBOARDS:
        board = json.loads(path.read_text("utf-8"))
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_every_query_names_metrics_and_labels_that_are_shown(where: str, query: str) -> None:
    bare = re.sub(r'"[^"]*"', '""', query)
    asked = re.findall(
        r"\b((?:projectionist|messaging)_[a-z_]+)(?=[{\[) ]|$)(?!\s*=)", re.sub(r"\{[^}]*\}", "", bare)
    )
    labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"", bare))
    for groups in re.findall(r"by \(([^)]*)\)", bare):
        labels |= {word.strip() for word in groups.split(",")}
    asked = [name for name in asked if name not in labels]
    assert asked or query.count("up{"), where
    known: set[str] = set(ALWAYS)
    for name in asked:
        base = re.sub(r"_(bucket|count|sum)$", "", name) if name not in SHOWN else name
        assert base in SHOWN, f"{where}: no process shows {name}"
        assert (base == name) is (SHOWN[base].instrument is not Instrument.HISTOGRAM), name
        known |= {attribute.replace(".", "_") for attribute in SHOWN[base].attributes}
    assert labels <= known, f"{where}: {labels - known}"


@pytest.mark.parametrize("fact", IncidentKind)
def test_every_kind_of_incident_has_one_alert(fact: IncidentKind) -> None:
    kinds = re.compile(r'projectionist_incidents\{projectionist_kind=~?"([^"]*)"\}')
    found = [
        rule["alert"] for rule in RULES for each in kinds.findall(rule["expr"]) if re.fullmatch(each, fact)
    ]
    assert len(found) == 1, found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_every_rule_has_a_severity_and_leads_to_its_section(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["labels"]["correctness"] in {"true", "false"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (\w+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert anchor in {heading.lower() for heading in headings}
    assert anchor == rule["alert"].removeprefix("Projectionist").lower()


def test_every_threshold_is_compared_with_by_a_rule_and_the_other_way_round() -> None:
    asked = {name for rule in RULES for name in re.findall(r'projectionist_threshold="(\w+)"', rule["expr"])}
    shown = [*metrics.thresholds(Alerts()), *metrics.thresholds(FleetAlerts())]
    assert asked == {attributes[names.THRESHOLD] for _, attributes in shown}


def test_every_shared_gauge_is_asked_for_by_its_maximum_and_never_summed() -> None:
    shared = "|".join(scraped(metric) for metric in METRICS.values() if metric.shared)
    for where, query in queries():
        assert not re.search(rf"\bsum[^(]*\([^)]*\) \((?:{shared})\b", query), where


def test_every_section_of_the_page_is_a_rules() -> None:
    headings = re.findall(
        r"^## (\w+)$", (ROOT / "docs/operations/alerts.md").read_text("utf-8"), re.MULTILINE
    )
    assert [f"Projectionist{heading}" for heading in headings] == [rule["alert"] for rule in RULES]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "ops/deploy").rglob("*.yaml")), ids=lambda path: str(path.name)
)
def test_deployment_files_can_be_read_and_name_files_that_are_there(path: Path) -> None:
    [found, *_] = yaml.safe_load_all(path.read_text("utf-8"))
    for service in found.get("services", {}).values() if path.name == "compose.yaml" else ():
        for volume in service.get("volumes", ()):
            assert (path.parent / volume.split(":")[0]).exists(), volume

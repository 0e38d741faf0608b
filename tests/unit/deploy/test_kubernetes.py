"""Manifests are valid, say what the product takes, and give a process no more than it needs. No cluster is started."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import msgspec
import pytest
import yaml
from tests.support.kustomize import Document, built

from projectionist.core.settings.settings import Settings, load
from projectionist.core.telemetry.health_server import is_own_host
from projectionist.ops import main
from projectionist.runner.telemetry.scale_board import ScaleStatus

ROOT = Path(__file__).parents[3]
KUBERNETES = ROOT / "ops/deploy/kubernetes"
FOLDERS = {
    folder.name: folder for folder in (KUBERNETES / "base", *sorted((KUBERNETES / "overlays").iterdir()))
}
BUILT = {name: built(folder) for name, folder in FOLDERS.items()}
OLDEST = "1.30.0"
"""The first of which the manifests are valid: a `preStop` that sleeps came with it."""
NOT_OF_KUBERNETES = {"ScaledObject"}
LISTENING = {"runner", "relay", "observe"}

every = pytest.mark.parametrize("name", sorted(BUILT))


def of(name: str, kind: str) -> Iterator[Document]:
    return (document for document in BUILT[name] if document["kind"] == kind)


def pods(name: str) -> dict[str, tuple[Document, Document]]:
    """The pod and the container of each workload, by component."""
    found = [*of(name, "Deployment"), *of(name, "Job")]
    templates = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"] for one in found
    }
    return {component: (one["spec"], one["spec"]["containers"][0]) for component, one in templates.items()}


def environment(name: str, component: str, tmp_path: Path) -> dict[str, str]:
    """What a container finds in its environment; its secrets lie in a folder of the test."""
    [settings] = of(name, "ConfigMap")
    _, container = pods(name)[component]
    found = settings["data"] | {one["name"]: one["value"] for one in container["env"]}
    [place] = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "secrets"]
    for file in ("postgres-password", "nats-token"):
        (tmp_path / file).write_text("s3cret")
    return {key: value.replace(place, str(tmp_path)) for key, value in found.items()}


def settings_of(name: str, component: str, tmp_path: Path) -> Settings:
    return load(None, environment(name, component, tmp_path))


@every
@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_document_is_what_kubernetes_takes(name: str, version: str) -> None:
    for document in BUILT[name]:
        if document["kind"] not in NOT_OF_KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)


@every
@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not here to put overlays together")
def test_kustomize_makes_the_same_of_an_overlay(name: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDERS[name])], check=True, capture_output=True, text=True
    )

    def by_name(documents: list[Document]) -> dict[tuple[str, str], Document]:
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    assert by_name(list(yaml.safe_load_all(done.stdout))) == by_name(BUILT[name])


@every
def test_each_process_is_there_and_has_a_command_that_the_product_knows(name: str) -> None:
    found = pods(name)
    assert found.keys() == {"runner", "relay", "observe", "console", "migrate"}
    for component, (_, container) in found.items():
        args = main.parser().parse_args(container["args"])
        assert args.command.__name__.rpartition(".")[2] == {"runner": "run"}.get(component, component)


@every
def test_each_process_has_settings_that_are_taken_and_a_role_and_a_secret_of_its_own(
    name: str, tmp_path: Path
) -> None:
    roles = {
        "runner": "runner",
        "relay": "relay",
        "observe": "observer",
        "console": "operator",
        "migrate": "owner",
    }
    for component, (pod, _) in pods(name).items():
        found = settings_of(name, component, tmp_path)
        [secret] = [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one]
        assert secret == f"projectionist-{roles[component]}"
        assert found.postgres.url is not None
        assert found.postgres.url.reveal().startswith(f"postgresql://shop_{roles[component]}:s3cret@")
        assert found.nats.token is not None
        assert found.app == "shop.app:app"
        assert (found.telemetry.listen is not None) == (component in LISTENING)


@every
def test_no_process_can_do_more_than_it_needs(name: str) -> None:
    for pod, container in pods(name).values():
        assert len(pod["containers"]) == 1
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] >= 10_000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = [one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")]
        assert writable == ["/tmp"]  # noqa: S108  the place of the container
        assert {*container["resources"]["requests"]} == {"cpu", "memory", "ephemeral-storage"}
        assert {*container["resources"]["limits"]} == {"memory", "ephemeral-storage"}
        assert all("sizeLimit" in one["emptyDir"] for one in pod["volumes"] if "emptyDir" in one)
        assert re.search(r":[\w.-]+$", container["image"])
    [account] = of(name, "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    [namespace] = of(name, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@every
def test_probes_ask_what_the_listener_answers_where_it_listens(name: str, tmp_path: Path) -> None:
    for component, (_, container) in pods(name).items():
        asked = {
            probe: container.get(probe, {}).get("httpGet")
            for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        if component not in LISTENING:
            assert not any(asked.values()), component
            continue
        assert {probe: found["path"] for probe, found in asked.items()} == {
            "startupProbe": "/startup",
            "livenessProbe": "/live",
            "readinessProbe": "/ready",
        }
        [port] = container["ports"]
        assert {found["port"] for found in asked.values()} == {port["name"]}
        assert settings_of(name, component, tmp_path).telemetry.listen == f"0.0.0.0:{port['containerPort']}"


@every
def test_a_process_is_given_longer_to_stop_than_it_takes(name: str, tmp_path: Path) -> None:
    for component, (pod, container) in pods(name).items():
        sleeps = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if component != "migrate":
            needs = settings_of(name, component, tmp_path).run.shutdown_s + sleeps
            assert pod["terminationGracePeriodSeconds"] >= needs + 10, component
        assert bool(sleeps) == (component == "observe"), "the one that a service leads to"


@every
def test_what_selects_pods_selects_some_of_them(name: str) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for one in (*of(name, "Deployment"), *of(name, "Job"))
    ]

    def chosen(selector: Any) -> list[Document]:
        wanted = selector.get("matchLabels", {}).items()
        among = {one["key"]: one["values"] for one in selector.get("matchExpressions", ())}
        return [
            one
            for one in labels
            if wanted <= one.items() and all(one.get(key) in values for key, values in among.items())
        ]

    for deployment in of(name, "Deployment"):
        assert (
            deployment["spec"]["selector"]["matchLabels"]
            == deployment["spec"]["template"]["metadata"]["labels"]
        )
        assert len(chosen(deployment["spec"]["selector"])) == 1
    for budget in of(name, "PodDisruptionBudget"):
        assert len(chosen(budget["spec"]["selector"])) == 1
    for service in of(name, "Service"):
        assert len(chosen({"matchLabels": service["spec"]["selector"]})) == 1
    policies = {
        one["metadata"]["name"]: chosen(one["spec"]["podSelector"]) for one in of(name, "NetworkPolicy")
    }
    assert {key: len(found) for key, found in policies.items()} == {
        "projectionist-nothing": 5,
        "projectionist-servers": 5,
        "projectionist-health": 3,
        "projectionist-providers": 1,
    }


@every
def test_policies_open_the_ports_that_the_settings_name_and_no_others(name: str, tmp_path: Path) -> None:
    found = {one["metadata"]["name"]: one["spec"] for one in of(name, "NetworkPolicy")}
    assert found["projectionist-nothing"].keys() == {"podSelector", "policyTypes"}
    settings = settings_of(name, "runner", tmp_path)
    assert settings.postgres.url is not None
    hosts = [urlsplit(url.reveal()) for url in (settings.postgres.url, *settings.nats.url)]
    opened = {
        (rule["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], port["port"])
        for rule in found["projectionist-servers"]["egress"]
        for port in rule["ports"]
    }
    assert opened == {("kube-system", 53), *((str(one.hostname).split(".")[1], one.port) for one in hosts)}
    [rule] = found["projectionist-health"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [9464]
    [rule] = found["projectionist-providers"]["egress"]
    assert [port["port"] for port in rule["ports"]] == [443]
    assert "169.254.0.0/16" in rule["to"][0]["ipBlock"]["except"]


@every
def test_the_observer_answers_to_the_name_of_its_service(name: str, tmp_path: Path) -> None:
    [service] = of(name, "Service")
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    hosts = settings_of(name, "observe", tmp_path).telemetry.hosts
    for asked in (host, f"{host}.cluster.local"):
        assert is_own_host(f"{asked}:9464", hosts)
    for scaled in of(name, "ScaledObject"):
        [trigger] = scaled["spec"]["triggers"]
        url = urlsplit(trigger["metadata"]["url"])
        assert (url.hostname, url.port, url.path) == (host, service["spec"]["ports"][0]["port"], "/scale")
        assert trigger["metadata"]["valueLocation"] in {
            one.name for one in msgspec.structs.fields(ScaleStatus)
        }


@pytest.mark.parametrize("name", ["keda", "hpa"])
def test_a_scaler_keeps_one_runner_at_least_and_nobody_else_counts_them(name: str) -> None:
    [runner] = [one for one in of(name, "Deployment") if one["metadata"]["name"] == "projectionist-runner"]
    assert "replicas" not in runner["spec"]
    [scaler] = [*of(name, "ScaledObject"), *of(name, "HorizontalPodAutoscaler")]
    spec = scaler["spec"]
    assert spec["scaleTargetRef"]["name"] == "projectionist-runner"
    assert spec.get("minReplicas", spec.get("minReplicaCount")) == 1
    if name == "keda":
        assert spec["fallback"]["replicas"] >= 1
        assert spec["triggers"][0]["metadata"]["targetValue"] == "1"
    else:
        [metric] = spec["metrics"]
        assert metric["external"]["metric"]["name"] == "projectionist_consumer_wanted"
        assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}


def test_the_image_runs_as_the_user_that_the_manifests_name() -> None:
    lines = (ROOT / "ops/deploy/Containerfile").read_text("utf-8").splitlines()
    [pod, _] = pods("base")["runner"]
    context = pod["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in lines
    assert 'ENTRYPOINT ["projectionist"]' in lines
    images = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert all(re.fullmatch(r"docker\.io/library/python:\d+\.\d+\.\d+-slim", image) for image in images)
    assert not any(re.match(r"USER (root|0)\b", line) for line in lines)

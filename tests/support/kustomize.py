"""What kustomize makes of a folder, as far as the overlays of `ops/deploy` use it: any other key is an error.

So they are put together where there is no `kubectl`; where there is one a test compares the two.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

_KEYS = {"apiVersion", "kind", "namespace", "resources", "images", "replicas", "patches"}
_CLUSTER = {"Namespace"}
"""Kinds that are in no namespace."""


def built(folder: Path) -> list[Document]:
    """Return the documents of a folder with a `kustomization.yaml`, changed as that says."""
    plan = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert plan.keys() <= _KEYS, f"{folder.name}: {plan.keys() - _KEYS} is not read here"
    documents = [document for name in plan["resources"] for document in _resource(folder / name)]
    for patch in plan.get("patches", ()):
        _patch(documents, patch)
    if "namespace" in plan:
        _place(documents, plan["namespace"])
    for one in plan.get("images", ()):
        _image(documents, one)
    for one in plan.get("replicas", ()):
        [found] = [
            document
            for document in documents
            if _is(document, {"kind": "Deployment"} | {"name": one["name"]})
        ]
        found["spec"]["replicas"] = one["count"]
    return documents


def _resource(path: Path) -> list[Document]:
    if path.is_dir():
        return built(path.resolve())
    return [document for document in yaml.safe_load_all(path.read_text("utf-8")) if document]


def _is(document: Document, target: Mapping[str, str]) -> bool:
    return (document["kind"], document["metadata"]["name"]) == (target["kind"], target["name"])


def _place(documents: Sequence[Document], namespace: str) -> None:
    for document in documents:
        if document["kind"] in _CLUSTER:
            document["metadata"]["name"] = namespace
        else:
            document["metadata"]["namespace"] = namespace


def _image(documents: Sequence[Document], change: Mapping[str, str]) -> None:
    assert change.keys() <= {"name", "newName", "newTag"}
    for container in _containers(documents):
        name, _, tag = container["image"].rpartition(":")
        if name == change["name"]:
            container["image"] = f"{change.get('newName', name)}:{change.get('newTag', tag)}"


def _containers(documents: Sequence[Document]) -> Iterator[Document]:
    for document in documents:
        template = document.get("spec", {}).get("template", {})
        yield from template.get("spec", {}).get("containers", ())


def _patch(documents: Sequence[Document], patch: Mapping[str, Any]) -> None:
    found = [document for document in documents if _is(document, patch["target"])]
    assert found, f"a patch for {patch['target']}, which is not there"
    for document in found:
        for step in yaml.safe_load(patch["patch"]):
            _apply(document, step)


def _apply(document: Document, step: Mapping[str, Any]) -> None:
    """Apply one operation of a JSON patch (RFC 6902): `replace` and `remove` demand that the place is there."""
    *way, last = [re.sub("~1", "/", part) for part in step["path"].split("/")[1:]]
    place: Any = document
    for part in way:
        place = place[int(part) if isinstance(place, list) else part]
    key = int(last) if isinstance(place, list) else last
    match step["op"]:
        case "replace":
            assert place[key] is not None
            place[key] = copy.deepcopy(step["value"])
        case "remove":
            del place[key]
        case other:
            raise AssertionError(f"{other} is not read here")

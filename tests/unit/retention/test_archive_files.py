"""Folders of an archive that others had their hands in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from projectionist.runner.retention.archive_files import Archive, ArchiveFailed


def test_rows_go_to_nobody_by_a_link_and_stay(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    archive = Archive(tmp_path / "archive")
    archive.write("inbox", "{}")
    assert (tmp_path / "archive" / "inbox").stat().st_mode & 0o777 == 0o700
    (tmp_path / "archive" / "intents").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveFailed, match="intents is no folder; nothing is removed"):
        archive.write("intents", "{}")
    (tmp_path / "archive" / "intents").unlink()
    (tmp_path / "archive" / "intents").mkdir()
    (tmp_path / "archive" / "intents").chmod(0o777)
    with pytest.raises(ArchiveFailed, match="can be changed by others; nothing is removed"):
        archive.write("intents", "{}")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    (tmp_path / "inbox").mkdir(mode=0o700)
    (tmp_path / "inbox" / archive._name).symlink_to(tmp_path / "aim")
    with pytest.raises(ArchiveFailed, match="cannot be written"):
        archive.write("inbox", "{}")
    assert not (tmp_path / "aim").exists()


def test_what_is_no_file_of_the_archive_does_not_expire(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    archive.write("inbox", "{}")
    [own] = (tmp_path / "archive").glob("inbox/*.jsonl")
    (tmp_path / "elsewhere").mkdir()
    foreign = tmp_path / "elsewhere" / "old.jsonl"
    foreign.touch()
    for path in (own, foreign):
        os.utime(path, (0, 0))
    (tmp_path / "archive" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "archive" / "inbox" / "link.jsonl").symlink_to(foreign)
    os.mkfifo(tmp_path / "archive" / "inbox" / "fifo.jsonl")
    assert archive.expire(60, dry_run=False) == 1
    assert (own.exists(), foreign.exists()) == (False, True)

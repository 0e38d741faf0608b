"""What is found in files of the archive, and what is said of files that are none of ours."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from projectionist.runner.retention import archive_search
from projectionist.runner.retention.archive_search import ArchiveSearch, InboxLine, IntentLine

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def inbox(name: str, aggregate: str = "order/7", version: int = 1, consumer: int = 1) -> bytes:
    row = InboxLine(
        consumer, "shop", name, "applied", "next", 1, version, "s", "t", 1, 1, AT, AT, aggregate, version
    )
    return msgspec.json.encode(row)


def intent(name: str, key: str) -> bytes:
    return msgspec.json.encode(IntentLine(1, key, 1, "shop", name, "slot", "C", "p", "d", "sent", AT))


def put(folder: Path, kind: str, name: str, *lines: bytes, end: bytes = b"\n") -> Path:
    path = folder / kind / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\n".join(lines) + end)
    return path


def test_rows_of_an_event_and_of_an_aggregate_are_found_once_each(tmp_path: Path) -> None:
    put(tmp_path, "inbox", "1.jsonl", inbox("e-1"), inbox("e-2", version=2), inbox("e-1", consumer=2))
    put(tmp_path, "inbox", "2.jsonl", inbox("e-1"), inbox("e-3", "order/8"))
    put(tmp_path, "intents", "1.jsonl", intent("e-1", "k1"), intent("e-1", "k1"), intent("e-2", "k2"))
    put(tmp_path, "audit", "1.jsonl", inbox("e-1", consumer=9))

    found = ArchiveSearch(tmp_path).find("e-1")
    assert sorted(found.inbox) == [(1, "shop", "e-1"), (2, "shop", "e-1")]
    assert list(found.intents) == ["k1"]
    assert (found.notes, found.sources("e-1"), found.sources("order/7")) == ([], {"shop"}, set())
    assert sorted(row.id for row in ArchiveSearch(tmp_path).find("order/7").inbox.values()) == [
        *("e-1", "e-1", "e-2")
    ]
    assert ArchiveSearch(tmp_path).find("e").inbox == {}


@pytest.mark.parametrize("name", ['say "so"', "back\\slash", "naïve 日本", "a b", "tab\t"])
def test_an_id_is_found_however_it_is_written(tmp_path: Path, name: str) -> None:
    put(tmp_path, "inbox", "1.jsonl", inbox(name))
    assert len(ArchiveSearch(tmp_path).find(name).inbox) == 1


def test_a_line_without_an_end_is_no_row_yet(tmp_path: Path) -> None:
    put(tmp_path, "inbox", "1.jsonl", inbox("e-1"), inbox("e-1", consumer=2), end=b"")
    found = ArchiveSearch(tmp_path).find("e-1")
    assert (len(found.inbox), found.notes) == (1, [])


def test_what_is_no_row_is_passed_over_and_told_of(tmp_path: Path) -> None:
    put(tmp_path, "inbox", "1.jsonl", inbox("e-1"))
    put(tmp_path, "inbox", "2.jsonl", b'{"name": "e-1"}', b'"e-1" \xff\xfe', b'["e-1"', b"no line of ours")
    put(tmp_path, "inbox", "3.jsonl", inbox("e-1").replace(b'"seq":1', b'"seq":99999999999999999999'))
    put(tmp_path, "inbox", "4.jsonl", inbox("e-1").replace(b'"s"', b'"\\u0000"'))
    put(tmp_path, "inbox", "5.jsonl.gz", b"\x1f\x8b")
    put(tmp_path, "inbox", "6.jsonl", end=b"")
    os.mkfifo(tmp_path / "inbox" / "7.jsonl")
    (tmp_path / "inbox" / "8.jsonl").mkdir()
    (tmp_path / "inbox" / "9.jsonl").symlink_to(tmp_path / "nowhere")

    found = ArchiveSearch(tmp_path).find("e-1")
    assert [row.seq for row in found.inbox.values()] == [1]
    folder = tmp_path / "inbox"
    assert sorted(found.notes) == [
        f"of the archive, 1 files are not .jsonl and were not read, like {folder}/5.jsonl.gz (unpack it first)",
        f"of the archive, 1 files cannot be read, like {folder}/9.jsonl: No such file or directory",
        f"of the archive, 2 names are of no files, like {folder}/8.jsonl",
        f"of the archive, 5 lines are not what retention writes, like {folder}/4.jsonl",
    ]


def test_a_file_without_lines_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_search, "BLOCK", 16)
    monkeypatch.setattr(archive_search, "MOST_LINE", 1000)
    put(tmp_path, "inbox", "1.jsonl", inbox("e-1"))
    put(tmp_path, "inbox", "2.jsonl", b"x" * 5000, inbox("e-2"))
    search = ArchiveSearch(tmp_path)
    [note] = search.find("e-1").notes
    assert "1 files have a line that is longer than any row" in note
    assert list(search.find("e-1").inbox) == [(1, "shop", "e-1")]


def test_newer_files_are_read_first_and_no_more_than_the_bound(tmp_path: Path) -> None:
    sizes = [
        put(tmp_path, "inbox", f"{n}.jsonl", inbox(f"e-{n}", version=n)).stat().st_size for n in range(5)
    ]
    found = ArchiveSearch(tmp_path, most_bytes=sizes[4] + sizes[3]).find("order/7")
    assert sorted(row.id for row in found.inbox.values()) == ["e-3", "e-4"]
    [note] = found.notes
    assert "MiB were read, and 3 older files are left. Give --archive a folder that holds fewer" in note

    few = ArchiveSearch(tmp_path, most_rows=1).find("order/7")
    assert [row.id for row in few.inbox.values()] == ["e-4"]
    assert "1 rows were found, and 4 older files are left" in few.notes[0]


def test_a_folder_that_is_not_here_is_said(tmp_path: Path) -> None:
    [note] = ArchiveSearch(tmp_path / "taken").find("e-1").notes
    assert "is no folder here. Name a copy of it with --archive" in note
    assert ArchiveSearch(tmp_path).find("e-1").notes == []

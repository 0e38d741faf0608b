"""The frame of the command line, with commands of its own."""

from __future__ import annotations

import argparse
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.settings import Settings
from projectionist.ops import main
from projectionist.ops.cli import app_arguments, output
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes `act`, called by `projectionist act`, the only command."""

    def with_run(run: Callable[[argparse.Namespace], int]) -> None:
        command = SimpleNamespace(
            TOPIC=Topic.RUN,
            HELP="acts",
            EXAMPLE="projectionist act",
            arguments=app_arguments.declare,
            run=run,
        )
        monkeypatch.setattr(main, "found", lambda: iter([("act", command)]))

    return with_run


@pytest.mark.parametrize("name", [name for name, _ in main.found()])
def test_every_command_explains_itself_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([name, "--help"])
    assert ended.value.code == Exit.DONE
    text = capsys.readouterr().out
    assert f"example:\n  projectionist {name}" in text


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    text = capsys.readouterr().out
    for name, command in main.found():
        assert f"\n  {name} " in text
        assert command.HELP[:40] in text
    headings = re.findall(r"^(\w+):$", text, re.MULTILINE)
    assert headings == [*Topic, "options"] or headings == ["options", *Topic]
    assert "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done" in text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert ended.value.code == Exit.DONE
    assert capsys.readouterr().out == f"projectionist {version('projectionist')}\n"


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["act", "--nonsense"], ["act", "--he"]])
def test_wrong_usage_ends_with_2(install: Install, argv: list[str]) -> None:
    install(lambda _: 0)
    with pytest.raises(SystemExit) as ended:
        main.main(argv)
    assert ended.value.code == Exit.USAGE


@pytest.mark.parametrize("code", Exit)
def test_the_code_of_the_command_is_the_code_of_the_process(install: Install, code: Exit) -> None:
    install(lambda _: code)
    assert main.main(["act"]) == code


@pytest.mark.parametrize(("kind", "code"), [(ProjectionistError, Exit.FAILED), (UsageError, Exit.USAGE)])
def test_an_error_is_one_line_with_its_remedy(
    install: Install, capsys: pytest.CaptureFixture[str], kind: type[ProjectionistError], code: Exit
) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise kind("it did not work", remedy="Try that")

    install(fail)
    assert main.main(["act"]) == code
    assert capsys.readouterr() == ("", "error: it did not work. Try that\n")


@pytest.mark.parametrize("argv", [["-q", "act"], ["act", "--quiet"], ["act", "-q"]])
def test_quiet_leaves_results_warnings_and_errors(
    install: Install, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    def act(_: argparse.Namespace) -> int:
        output.note("beginning")
        output.warn("3 more are left")
        output.say("done")
        assert output.log_level() == (logging.WARNING if output.is_quiet() else logging.INFO)
        raise ProjectionistError("it did not work")

    install(act)
    assert main.main(argv) == Exit.FAILED
    assert capsys.readouterr() == ("done\n", "3 more are left\nerror: it did not work\n")
    main.main(["act"])
    assert capsys.readouterr().err.startswith("beginning\n"), "of one call, not of the process"


def test_an_interrupted_command_ends_like_any_interrupted_program(install: Install) -> None:
    def interrupt(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    install(interrupt)
    assert main.main(["act"]) == 130


def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    many = "import sys; from projectionist.ops import main as cli\n"
    many += "from projectionist.ops.cli import output as terminal\n"
    many += "from types import SimpleNamespace as S\n"
    many += "run = lambda _: [terminal.say('x' * 1000) for _ in range(1000)] and 0\n"
    many += "c = S(TOPIC='run', HELP='', EXAMPLE='', arguments=lambda p: None, run=run)\n"
    many += "cli.found = lambda: iter([('act', c)])\n"
    many += "sys.exit(cli.main(['act']))"
    with subprocess.Popen(
        [sys.executable, "-c", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_colour_is_for_terminals_whose_user_wants_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.styled("text", "good") == "text"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.say(output.styled("text", "good"))
    assert capsys.readouterr().out == "\x1b[32mtext\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.styled("text", "good") == "text"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert output.styled("text", "good") == "text"


@pytest.mark.parametrize(("typed", "meant"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("", False)])
def test_a_question_is_put_to_a_person_only(monkeypatch: pytest.MonkeyPatch, typed: str, meant: bool) -> None:
    assert not output.confirmed("Sure?")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdin, "readline", lambda: typed, raising=False)
    assert output.confirmed("Sure?") is meant


def parsed(*words: str, names: str = "consumers") -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    app_arguments.declare(parser, names=names)
    return parser.parse_args(words)


def test_what_holds_a_colon_is_the_app() -> None:
    assert app_arguments.split(parsed("shop.app:app", "OrderSummary"), None) == (
        "shop.app:app",
        ["OrderSummary"],
    )
    assert app_arguments.split(parsed("OrderSummary", "shop.app:app"), "other:app") == (
        "shop.app:app",
        ["OrderSummary"],
    )
    assert app_arguments.split(parsed("A", "B"), "set:app") == ("set:app", ["A", "B"])
    assert app_arguments.split(parsed(names=""), "set:app") == ("set:app", [])
    assert app_arguments.split(parsed("shop.app:app", names=""), None) == ("shop.app:app", [])


def test_no_app_and_two_apps_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"no app is named.*shop\.app:app.*projectionist\.toml"):
        app_arguments.split(parsed("OrderSummary"), None)
    with pytest.raises(UsageError, match="a:b and c:d are two apps"):
        app_arguments.split(parsed("a:b", "c:d"), None)


def test_an_app_is_loaded_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "little_shop.py").write_text("class inner: app = {'x': 1}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert app_arguments.load("little_shop:inner.app", dict) == {"x": 1}
    with pytest.raises(ProjectionistError, match=r"little_shop:inner\.app is dict, not list"):
        app_arguments.load("little_shop:inner.app", list)
    with pytest.raises(ProjectionistError, match="there is no 'nothing' in little_shop"):
        app_arguments.load("little_shop:nothing", dict)


@pytest.mark.parametrize("app", ["no_such_module:app", "no_such_package.module:app", "os.nothing:app"])
def test_a_missing_module_is_named_with_the_folder_that_was_searched(app: str) -> None:
    module, here = re.escape(app.partition(":")[0]), re.escape(str(Path.cwd()))
    with pytest.raises(ProjectionistError, match=f"no module {module}, neither in {here}"):
        app_arguments.load(app, dict)


@pytest.mark.parametrize("app", [":app", ".shop:app", "shop:", "shop:a b", "a:b:c"])
def test_what_is_not_module_and_attribute_is_wrong_usage(app: str) -> None:
    with pytest.raises(UsageError, match="is not module:attribute"):
        app_arguments.load(app, dict)


def test_an_import_that_fails_inside_the_app_is_the_apps_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_shop.py").write_text("import no_such_dependency\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        app_arguments.load("broken_shop:app", dict)


def acting(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    app_arguments.declare_act(parser, required=False)
    return parser.parse_args(words)


def test_who_acts_is_said_or_stands_in_the_environment_or_is_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PROJECTIONIST_ACTOR", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    assert acting().actor == "root"
    monkeypatch.setenv("PROJECTIONIST_ACTOR", "ann")
    assert acting().actor == "ann"
    assert acting("--actor", "bob").actor == "bob"


def test_a_user_without_a_name_can_still_call_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.delenv("PROJECTIONIST_ACTOR", raising=False)
    monkeypatch.setattr("getpass.getuser", nobody)
    assert acting().actor == ""
    assert acting("--actor", "ann").actor == "ann"


@pytest.mark.parametrize(
    ("typed", "says"), [("statsu", "Did you mean `projectionist status`?"), ("xyz", "All of")]
)
def test_a_command_that_is_not_there_is_answered_with_the_nearest(
    typed: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([typed])
    assert ended.value.code == Exit.USAGE
    told = capsys.readouterr().err
    assert f"there is no command '{typed}'" in told
    assert says in told
    assert "choose from" not in told


def test_a_process_may_be_given_a_place_to_listen_at_of_its_own() -> None:
    assert app_arguments.listening(Settings(), None) == Settings()
    assert app_arguments.listening(Settings(), "127.0.0.1:9465").telemetry.listens == "127.0.0.1:9465"
    with pytest.raises(UsageError, match="--listen here"):
        app_arguments.listening(Settings(), "here")


def test_an_argument_that_is_no_text_is_refused_and_shown_in_ascii(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["parked", "skip", "e1", "--reason", "\udcff"]) == Exit.USAGE
    assert capsys.readouterr().err == "error: an argument is no text in UTF-8: '\\udcff'\n"


def test_a_number_that_no_server_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["operations", "show", "9" * 30])
    assert (ended.value.code, "is too large a number" in capsys.readouterr().err) == (Exit.USAGE, True)

"""Nothing that an event, a broker or a provider says steers the terminal of whoever reads it."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata

import pytest

from projectionist.core.log_format import JsonFormatter, TextFormatter, facts
from projectionist.ops.cli import output
from projectionist.ops.commands import status
from projectionist.ops.main import main

HOSTILE = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
]
"""Control and format characters of all of Unicode, bidirectional overrides among them, and its line breaks."""
TEXT = "".join(f"<{one}>" for one in HOSTILE)


def unprintable(written: str) -> set[str]:
    return {one for one in written if not one.isprintable()}


def test_lines_hold_nothing_that_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(f"o1 {TEXT}")
    output.warn(f"o1 {TEXT}")
    output.say(output.table([["order", TEXT], ["o1", "x"]]))
    written = capsys.readouterr()
    assert unprintable(written.out + written.err) == {"\n", "\t"}
    assert r"<\x1b><\x1c>" in written.out
    assert r"<\u202e>" in written.err


def test_a_cell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(output.table([["a\nb", "c"], ["d\te", "f"]]))
    assert capsys.readouterr().out == "a\\nb  c\nd\\te  f\n"


def test_a_document_holds_the_same_text_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output.say_json({"id": TEXT, "city": "Köln"})
    written = capsys.readouterr().out
    assert unprintable(written) == {"\n"}
    assert "Köln" in written
    assert json.loads(written) == {"id": TEXT, "city": "Köln"}


def test_our_own_styles_are_shown_and_those_of_others_are_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.say(output.table([[output.styled("down\x1b[32m", "bad"), "x"], ["-", "y"]]))
    assert capsys.readouterr().out == "\x1b[31mdown\\x1b[32m\x1b[0m  x\n-             y\n"


def record(text: str, error: Exception | None = None) -> logging.LogRecord:
    about = None if error is None else (type(error), error, None)
    made = logging.LogRecord("projectionist", logging.WARNING, __file__, 1, text, None, about)
    made.__dict__.update(facts(message_id=f"e1{TEXT}"))
    return made


def test_a_log_line_is_one_line_and_a_traceback_stands_behind_it_indented(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forged = "x\n2026-11-18 21:00:00,000 ERROR   forged"
    line, *behind = TextFormatter().format(record(forged + TEXT, ValueError(forged))).split("\n")
    assert not unprintable(line)
    assert r"x\n2026-11-18 21:00:00,000 ERROR   forged" in line
    assert behind
    assert all(one.startswith("  ") for one in behind)
    assert not any("forged" in one for one in behind)
    caplog.set_level(logging.DEBUG, "projectionist")
    assert "forged" in TextFormatter().format(record("x", ValueError(forged)))


def test_a_log_line_as_json_holds_nothing_that_steers_a_terminal() -> None:
    written = JsonFormatter().format(record(TEXT))
    assert not unprintable(written)
    assert json.loads(written)["message"] == TEXT


def test_the_traceback_of_a_command_steers_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> int:
        raise ValueError(TEXT)

    monkeypatch.setattr(status, "run", fails)
    assert main(["status"]) == output.Exit.FAILED
    written = capsys.readouterr().err
    assert written.startswith("Traceback")
    assert unprintable(written) <= {"\n", "\t"}
    assert r"<\x1b>" in written

"""How numbers, times, commands and texts of others are written on pages."""

from __future__ import annotations

import shlex

import pytest
from starlette.requests import Request

from projectionist.console.access.request_guard import hostname, own_cookie
from projectionist.console.access.sessions import Access, Person, Role
from projectionist.console.console_context import address_of
from projectionist.console.pages import (
    TO_SAY,
    command_line,
    count,
    duration,
    environment,
    flag,
    sentence,
    size,
)
from projectionist.console.screens.login import local


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (0.23, "0.2 s"),
        (9, "9 s"),
        (59, "59 s"),
        (61, "1 min"),
        (3600, "1 h"),
        (86400, "1 d"),
        (2 * 86400 + 5 * 3600, "2 d 5 h"),
        (9 * 86400 + 3600, "9 d"),
    ],
)
def test_a_time_has_one_unit_and_two_where_it_matters(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (None, "\N{EN DASH}"),
        (0, "0"),
        (2.25, "2.2"),
        (812, "812"),
        (48_211, "48,211"),
        (48_211_904, "48.2 M"),
    ],
)
def test_a_number_has_separators_and_is_shortened_from_ten_millions_on(
    number: float | None, told: str
) -> None:
    assert count(number) == told


def test_a_size_has_a_unit() -> None:
    assert [size(n) for n in (7, 1_200, 3_400_000, 5_600_000_000)] == ["7 B", "1.2 kB", "3.4 MB", "5.6 GB"]


def test_a_command_is_quoted_for_a_shell_and_leaves_open_what_is_to_be_said() -> None:
    told = command_line("parked", "skip", "a b; rm -rf /", None, "--reason", TO_SAY)
    assert told == "projectionist parked skip 'a b; rm -rf /' --reason …"


@pytest.mark.parametrize("name", ["--all", "-rf", "--help", "-", "--reason=x"])
def test_a_name_that_looks_like_an_option_is_none(name: str) -> None:
    chosen = (*flag("type", name), *flag("source", "shop"), *flag("cause", None))
    told = shlex.split(command_line("parked", "retry", *chosen, "--reason", TO_SAY, of=name))
    assert told == [
        *("projectionist", "parked", f"--type={name}", "--source", "shop", "--reason", TO_SAY),
        *("--", "retry", name),
    ]
    assert command_line("journey", of=name) == f"projectionist journey -- {shlex.quote(name)}"
    assert command_line("outbox", "show", *flag("at", "2"), of="k") == "projectionist outbox show k --at 2"


def test_what_others_say_is_escaped_and_turns_no_line_around() -> None:
    shown = (
        environment().from_string("<p title='{{ text }}'>{{ text }}</p>").render(text="<b>'\u202egnp\x1b[2J")
    )
    assert shown == "<p title='&lt;b&gt;&#39;\\u202egnp\\x1b[2J'>&lt;b&gt;&#39;\\u202egnp\\x1b[2J</p>"


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/audit?who=ann", True),
        ("/", True),
        ("", False),
        ("audit", False),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("https://evil.example", False),
        ("/a\nb", False),
        ("/[", True),
    ],
)
def test_after_a_login_only_a_path_of_ours_follows(path: str, kept: bool) -> None:
    assert local(path) == (path if kept else "/")


@pytest.mark.parametrize(
    ("path", "query", "told"), [("/a", b"b=1", "/a?b=1"), ("//evil.example/x", b"", "/evil.example/x")]
)
def test_the_address_of_a_page_that_is_none_leads_to_no_other_host(
    path: str, query: bytes, told: str
) -> None:
    scope = {"type": "http", "scheme": "http", "path": path, "root_path": "", "query_string": query}
    asked = Request({**scope, "method": "GET", "headers": [(b"host", b"127.0.0.1:8710")]})
    assert address_of(asked) == told


@pytest.mark.parametrize(
    ("header", "name"),
    [("127.0.0.1:8710", "127.0.0.1"), ("LOCALHOST", "localhost"), ("[::1]:80", "[::1]"), ("", "")],
)
def test_a_host_is_compared_without_its_port(header: str, name: str) -> None:
    assert hostname(header) == name


def test_each_role_may_what_those_before_it_may() -> None:
    told = [[role.may(other) for other in Role] for role in Role]
    assert told == [[True, False, False], [True, True, False], [True, True, True]]


def test_links_and_logins_are_bounded() -> None:
    access = Access()
    links = [access.new_link() for _ in range(12)]
    assert [access.has_link(link) for link in links] == [False] * 2 + [True] * 10
    cookies = [access.open(Person("ann")) for _ in range(1_001)]
    assert access.session(cookies[0]) is None
    assert access.session(cookies[-1]) is not None


@pytest.mark.parametrize("other", ['theme={"dark":1}', "path=/x", "two words=1", 'open="', "=", "plain=1"])
def test_a_cookie_of_another_program_of_this_host_locks_nobody_out(other: str) -> None:
    assert own_cookie(f"{other}; mine=abc; {other}", "mine") == "abc"
    assert own_cookie(f"{other}; notmine=abc", "mine") == ""


def test_a_name_for_the_audit_trail_can_be_printed_and_stored() -> None:
    access = Access()
    session = access.session(access.log_in(access.new_link(), " an\0n\u202e ") or "")
    assert session is not None
    assert session.person.name == "an\\x00n\\u202e"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("`projectionist run`", "<code>projectionist run</code>"),
        ("call `a < b`, then `c`.", "call <code>a &lt; b</code>, then <code>c</code>."),
        ("one ` alone <b>", "one ` alone &lt;b&gt;"),
        ("`<script>`\x1b", "<code>&lt;script&gt;</code>\\x1b"),
        ("", ""),
    ],
)
def test_what_stands_between_backticks_is_code_and_all_of_it_is_escaped(text: str, told: str) -> None:
    assert str(sentence(text)) == told

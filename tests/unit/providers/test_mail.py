"""Mails as bytes, and text with fields: nothing an intent holds may become a header, a recipient or code."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.outbox.providers import RenderError, Request
from projectionist.outbox.providers.mail import FrozenMail, Template, address, compose
from projectionist.outbox.providers.templates import fill, names

SENDER = "Shop <shop@example.com>"


def request(**fields: Any) -> Request:
    return Request(
        key="ab" * 16,
        provider="email",
        destination="email",
        intent="Receipt",
        body=msgspec.json.encode(fields, order="sorted"),
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def parsed(letter: FrozenMail) -> Any:
    return message_from_bytes(letter.message.encode("ascii"), policy=policy.default)


def test_the_message_id_is_of_the_key_and_the_date_of_the_intent_or_its_due_time() -> None:
    mail = parsed(compose(request(to="a@example.org", order_id="o-1"), SENDER, None))
    assert mail["Message-ID"] == f"<{'ab' * 16}@example.com>"
    assert mail["Date"].datetime == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    later = datetime(2026, 1, 3, tzinfo=UTC)
    scheduled = msgspec.structs.replace(request(to="a@example.org"), due=later)
    assert parsed(compose(scheduled, SENDER, None))["Date"].datetime == later
    assert mail["Subject"] == "Receipt"
    assert mail.get_content() == "order_id: o-1\r\n"


def test_a_mail_bears_the_context_its_intent_was_written_with() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    asked = msgspec.structs.replace(request(to="a@example.org"), traceparent=parent)
    assert parsed(compose(asked, SENDER, None))["Traceparent"] == parent
    assert parsed(compose(request(to="a@example.org"), SENDER, None))["Traceparent"] is None


def test_the_same_intent_gives_the_same_bytes() -> None:
    template = Template(subject="Your order {order_id}", text="Thanks, {name}", html="<b>{name}</b>")
    asked = request(to="a@example.org", order_id="o-1", name="Zoë & <co>")
    first = compose(asked, SENDER, template)
    assert compose(asked, SENDER, template) == first
    mail = parsed(first)
    assert mail["Subject"] == "Your order o-1"
    assert mail.get_body(("plain",)).get_content().strip() == "Thanks, Zoë & <co>"
    assert mail.get_body(("html",)).get_content().strip() == "<b>Zoë &amp; &lt;co&gt;</b>"


def test_everybody_in_to_cc_and_bcc_gets_it_and_bcc_is_not_shown() -> None:
    letter = compose(
        request(to=["a@example.org", "b@example.org"], cc="c@example.org", bcc="d@example.org", subject="Hi"),
        SENDER,
        None,
    )
    assert letter.recipients == [f"{name}@example.org" for name in "abcd"]
    assert letter.sender == "shop@example.com"
    assert "d@example.org" not in letter.message


@pytest.mark.parametrize(
    "to",
    [
        "",
        [],
        None,
        7,
        "nobody",
        "a@example.org, b@example.org",
        "a@example.org\r\nBcc: b@example.org",
        "a@example.org\nRCPT TO:<b@example.org>",
        "группа@example.org",
        "a@exämple.org",
        "@example.org",
        "a@",
        "<>",
        "x: a@example.org;",
        ["a@example.org", 7],
    ],
)
def test_what_is_not_one_address_is_refused(to: object) -> None:
    with pytest.raises(RenderError):
        compose(request(to=to), SENDER, None)


def test_a_line_break_in_the_subject_is_refused() -> None:
    with pytest.raises(RenderError, match="line break"):
        compose(request(to="a@example.org", subject="Hi\r\nBcc: b@example.org"), SENDER, None)


@given(st.text(max_size=60))
def test_no_text_becomes_a_second_recipient(text: str) -> None:
    try:
        found = address(text)
    except RenderError:
        return
    assert found.addr_spec.count("@") >= 1
    assert "\n" not in str(found)
    assert "\r" not in str(found)


def test_a_template_reaches_fields_and_nothing_behind_them() -> None:
    assert fill("{a} {{b}} {c}", {"a": 1, "c": True}) == "1 {b} true"
    assert names("{a}-{b}") == ["a", "b"]
    for bad in ("{a.b}", "{a[0]}", "{a!r}", "{}", "{", "}", "{a:>10}"):
        with pytest.raises(ValueError, match="is not a field"):
            names(bad)


def test_a_field_that_is_missing_or_not_plain_is_named() -> None:
    with pytest.raises(RenderError, match="no field 'b'"):
        fill("{b}", {"a": 1})
    with pytest.raises(RenderError, match="not a plain value"):
        fill("{a}", {"a": [1]})


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_value_is_never_read_as_a_template(value: str, other: str) -> None:
    assert fill("{a}", {"a": value, "b": other}) == value


@pytest.mark.parametrize(
    "to",
    [
        "a@[127.0.0.1]",
        "a@[IPv6:::1]",
        "a@127.0.0.1",
        "a@2130706433",
        "a@0x7f000001",
        '"a@b.c> NOTIFY=x"@d.e',
        '"a b"@example.org',
        "Ann <a@[169.254.169.254]>",
    ],
)
def test_an_address_that_is_not_plain_is_refused_unless_allowed(to: str) -> None:
    for field in ("to", "cc", "bcc", "reply_to"):
        fields = {"to": "b@example.org", field: to}
        with pytest.raises(RenderError, match="quoted local part") as caught:
            compose(request(**fields), SENDER, None)
        assert "allow_literals" in caught.value.remedy
        assert "@" in compose(request(**fields), SENDER, None, allow_literals=True).recipients[-1]


@pytest.mark.parametrize(
    "to", ["a.b+c@example.org", "o'neil@a-b.example", "root@localhost", "a@4you.example"]
)
def test_a_plain_address_is_taken(to: str) -> None:
    assert compose(request(to=to), SENDER, None).recipients == [to]

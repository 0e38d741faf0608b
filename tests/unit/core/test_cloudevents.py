"""Names, percent-coding, times and trace parents of headers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core import cloudevents
from projectionist.core.cloudevents import HeaderError
from projectionist.core.nats import subject_tokens
from projectionist.core.settings.settings import Headers

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def test_the_settings_and_the_publisher_name_the_same_headers() -> None:
    assert msgspec.structs.asdict(Headers()) == cloudevents.DEFAULTS


@given(TEXTS)
def test_what_is_encoded_is_printable_ascii_and_decodes_to_itself(text: str) -> None:
    coded = cloudevents.encode(text)
    assert coded.isascii()
    assert all("!" <= letter <= "~" and letter != '"' for letter in coded)
    assert cloudevents.decode(coded) == text


def test_values_are_coded_as_cloudevents_writes_them() -> None:
    assert cloudevents.encode("Euro € 😀") == "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert cloudevents.encode('100% "a/b"') == "100%25%20%22a/b%22"


def test_one_round_is_decoded_and_no_more() -> None:
    assert cloudevents.decode("%2541") == "%41"
    assert cloudevents.decode("100%") == "100%"


@pytest.mark.parametrize("value", ["%ff", "%C3%28", "%ED%A0%80"])
def test_escapes_that_are_not_utf8_are_refused(value: str) -> None:
    with pytest.raises(HeaderError):
        cloudevents.decode(value)


def test_half_of_a_surrogate_pair_cannot_travel() -> None:
    with pytest.raises(HeaderError):
        cloudevents.encode("\ud800")


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T23:59:59Z",
        "2026-01-31T23:59:59.123456789+02:00",
        "2026-01-31t23:59:59z",
        "2026-01-31 23:59:59-11:30",
    ],
)
def test_times_with_an_offset_are_read(text: str) -> None:
    assert cloudevents.timestamp(text).tzinfo is not None


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-01-31", "2026-01-31T23:59:59", "20260131T235959Z", "2026-02-30T00:00:00Z"),
        *(
            "2026-01-31\x0023:59:59Z",
            "2026-01-31\x1f23:59:59Z",
            "2026-01-31_23:59:59Z",
            "2026-01-31é23:59:59Z",
        ),
        *("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"),
        *("2026-W05-3T23:59:59Z", "2026-01-31T235959Z", "2026-01-31T23Z", "2026-01-31T23:59:59,5Z"),
        *(
            "2026-01-31T23:59:59+02",
            "2026-01-31T23:59:59+0200",
            "2026-01-31T23:59:59+02:00:30",
            "\uff12026-01-31T23:59:59Z",
        ),
        *("2026-01-31T23:59:59Z ", "2026-01-31T23:59:59Z\n", "2026-01-31T23:59:59." + "1" * 99 + "Z"),
        *("2026-01-31T24:00:00Z", "2026-01-31T00:00:00+22:60", "0000-01-01T00:00:00Z"),
    ],
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        cloudevents.timestamp(text)


@pytest.mark.parametrize("text", [TRACE, "01" + TRACE[2:], "cc" + TRACE[2:] + "-what-comes-later"])
def test_a_trace_to_be_continued_is_known(text: str) -> None:
    assert cloudevents.is_traceparent(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ff" + TRACE[2:],
        TRACE.upper(),
        TRACE + "-more",
        TRACE[:-1],
        "cc" + TRACE[2:] + "more",
        "00-" + "0" * 32 + TRACE[35:],
        TRACE[:36] + "0" * 16 + "-01",
        *(f"01{TRACE[2:]}-{bad}" for bad in ("\x1fx", "\0", "\n", "a\nb", "é", "a b", "x" * 457)),
        TRACE + "\n",
    ],
)
def test_a_malformed_trace_is_none(text: str) -> None:
    assert not cloudevents.is_traceparent(text)


@pytest.mark.parametrize("state", ["", " a=b", "a=b ", "a=\x1f", "a=\n", "a=é", "x" * 513])
def test_a_malformed_state_is_dropped_and_its_parent_stays(state: str) -> None:
    assert cloudevents.trace_context(TRACE, state) == (TRACE, None)


def test_a_context_is_taken_whole_or_not_at_all() -> None:
    longest = f"01{TRACE[2:]}-{'x' * 456}"
    assert cloudevents.trace_context(longest, "x" * 512) == (longest, "x" * 512)
    assert cloudevents.trace_context("00-x", "a=b") == cloudevents.trace_context(None, "a=b") == (None, None)


def test_only_the_fields_that_are_there_become_headers() -> None:
    composed = cloudevents.compose({"id": "1", "source": "/shop", "causation": None})
    assert composed == {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop"}


@given(TEXTS.filter(bool))
def test_any_text_is_one_token_of_a_subject(text: str) -> None:
    token = subject_tokens.encoded(text)
    assert not set(token) & set(" .*>\t\r\n\0")
    assert subject_tokens.decoded(token) == text

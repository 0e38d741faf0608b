"""A header block with some of its headers replaced, as an operator corrects what stands in quarantine."""

from __future__ import annotations

import pytest

from projectionist.core.settings.settings import Headers
from projectionist.runner.decoding.header_parser import BadHeader, Heads, replaced

BLOCK = b"NATS/1.0\r\nce-id: a\r\nce-type: t\r\nCE-Type: twice\r\nbroken\r\nx: \xff\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "given", "expected"),
    [
        (None, {"ce-id": "a"}, b"NATS/1.0\r\nce-id: a\r\n\r\n"),
        (
            BLOCK,
            {"ce-type": "u"},
            b"NATS/1.0\r\nce-id: a\r\nx: \xff\r\nce-type: u\r\n\r\n",
        ),
        (BLOCK, {"CE-TYPE": None, "X": None}, b"NATS/1.0\r\nce-id: a\r\n\r\n"),
        (b"NATS/1.0\r\nce-id: a\r\n\r\n", {"ce-id": "ä b"}, b"NATS/1.0\r\nce-id: %C3%A4%20b\r\n\r\n"),
        (None, {"content-type": "a b"}, b"NATS/1.0\r\ncontent-type: a b\r\n\r\n"),
    ],
)
def test_what_is_given_replaces_every_header_of_its_name_and_lines_that_are_none_go(
    head: bytes | None, given: dict[str, str | None], expected: bytes
) -> None:
    assert replaced(head, given) == expected


def test_what_was_written_is_read_as_it_was_meant() -> None:
    fields = Heads(Headers()).read(replaced(BLOCK, {"ce-type": "größe 1", "x": None}))
    assert (fields[0], fields[2]) == ("a", "größe 1")


@pytest.mark.parametrize(
    "given", [{"ce id": "a"}, {"": "a"}, {"ce-id:": "a"}, {"ce-id": "a\r\nx: y"}, {"ce-id": "\0"}]
)
def test_what_cannot_travel_in_a_header_is_refused(given: dict[str, str | None]) -> None:
    with pytest.raises(BadHeader, match="cannot be a header") as told:
        replaced(BLOCK, given)
    assert "one printable line" in str(told.value.remedy)

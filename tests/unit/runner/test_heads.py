"""Header blocks are read the same whether the names in them have been seen before or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.headers import HeaderError
from projectionist.core.settings import Headers
from projectionist.runner.heads import Fields, Heads

NAMES = (
    "ce-id",
    "ce-source",
    "ce-type",
    "ce-aggregateversion",
    "ce-time",
    "traceparent",
    "x-other",
    "ce-id:x",
)
ODD = st.text(" \t%ab2\r\nä\0é\x7f", max_size=8)
VALUES = st.one_of(st.from_regex(r"[!-~]{1,12}", fullmatch=True), ODD, st.just("%C3%A4"), st.just("%zz"))
BLOCKS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6)


def block(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(("NATS/1.0\r\n", *(f"{name}: {value}\r\n" for name, value in pairs), "\r\n")).encode()


def read(heads: Heads, head: bytes) -> Fields | str:
    try:
        return heads.read(head)
    except HeaderError as error:
        return str(error)


@given(BLOCKS)
def test_a_reader_that_knows_the_names_reads_what_one_reads_that_does_not(
    pairs: list[tuple[str, str]],
) -> None:
    seasoned = Heads(Headers())
    for _ in range(2):  # the second look makes them the usual ones
        read(seasoned, block([(name, "a") for name, _ in pairs]))

    assert read(seasoned, block(pairs)) == read(Heads(Headers()), block(pairs))


def test_what_is_read_at_a_glance_is_what_stands_there() -> None:
    heads = Heads(Headers())
    for value in ("first", "second", "a b", 'quoted "x"', "~"):
        fields = heads.read(block([("ce-id", value), ("x-other", "y"), ("ce-type", f"t {value}")]))
        assert (fields[0], fields[2], fields[1]) == (value, f"t {value}", None)

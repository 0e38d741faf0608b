"""Header blocks are read the same whether the names in them have been seen before or not."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.cloudevents import HeaderError
from projectionist.core.settings.settings import Headers
from projectionist.runner.decoding.header_parser import MOST_BYTES, MOST_LINES, SETTLED_AT, Fields, Heads

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
    for _ in range(SETTLED_AT + 2):  # now they are the usual ones
        read(seasoned, block([(name, "a") for name, _ in pairs]))

    assert read(seasoned, block(pairs)) == read(Heads(Headers()), block(pairs))


def test_what_is_read_at_a_glance_is_what_stands_there() -> None:
    heads = Heads(Headers())
    for value in (*("more",) * SETTLED_AT, "first", "second", "a b", 'quoted "x"', "~"):
        fields = heads.read(block([("ce-id", value), ("x-other", "y"), ("ce-type", f"t {value}")]))
        assert (fields[0], fields[2], fields[1]) == (value, f"t {value}", None)


class TestBounds:
    @pytest.mark.parametrize(
        "head",
        [
            b"NATS/1.0\r\nce-id: a\r\n" + b"a: b\r\n" * 170_000 + b"\r\n",
            b"NATS/1.0\r\n" + b"".join(b"n%d: b\r\n" % n for n in range(90_000)) + b"\r\n",
            b"NATS/1.0\r\nce-id: " + b"%C3" * 350_000 + b"\r\n\r\n",
            b"NATS/1.0\r\nce-id: " + b"\xff" * 1_000_000 + b"\r\n\r\n",
            b"NATS/1.0\r\nce-id:" + b" " * 1_000_000 + b"\r\n\r\n",
        ],
        ids=["one name", "many names", "escapes", "no text", "blanks"],
    )
    def test_a_megabyte_of_headers_is_refused_in_no_time(self, head: bytes) -> None:
        heads = Heads(Headers())
        assert "more than" in str(read(heads, head))
        assert spent(lambda: read(heads, head)) < 0.005

    @pytest.mark.parametrize(
        "value", ["b", " " * 200, "% %" * 60, "x \t" * 60, "é" * 100, "%C3%A9" * 30], ids=lambda v: v[:6]
    )
    def test_what_is_large_and_just_allowed_takes_a_few_milliseconds(self, value: str) -> None:
        heads = Heads(Headers())
        for names in (31, MOST_LINES - 5):
            size = MOST_BYTES // names - 20
            pairs = [(f"x-{n}", (value * (size // len(value.encode())))) for n in range(names)]
            head = block([("ce-id", "e"), *pairs])
            assert len(head) <= MOST_BYTES
            for _ in range(SETTLED_AT + 2):
                assert spent(partial(read, heads, head)) < 0.02

    def test_the_largest_blocks_are_read_and_larger_ones_are_not(self) -> None:
        heads = Heads(Headers())
        lines = [("ce-id", "e")] + [("x", "y")] * (MOST_LINES - 4)
        assert read(heads, block(lines))[0] == "e"
        assert f"{MOST_LINES + 1} lines" in str(read(heads, block([*lines, ("x", "y")])))
        empty = len(block([("ce-id", "")]))
        assert read(heads, block([("ce-id", "e" * (MOST_BYTES - empty))]))[0]
        assert f"{MOST_BYTES + 1} bytes" in str(
            read(heads, block([("ce-id", "e" * (MOST_BYTES - empty + 1))]))
        )

    def test_names_that_change_with_every_message_take_no_memory(self) -> None:
        heads = Heads(Headers())
        rows = [block([(f"{n}-{i}".ljust(31, "x"), "y") for i in range(31)]) for n in range(600)]
        rows += [block([(f"{n}-{i}", "y") for i in range(200)]) for n in range(200)]
        tracemalloc.start()
        try:
            for row in rows:
                for _ in range(3):
                    read(heads, row)
            assert tracemalloc.get_traced_memory()[0] < 1_000_000
        finally:
            tracemalloc.stop()


def spent(work: Callable[[], object]) -> float:
    """Seconds of the processor, the least of a few tries."""
    took = []
    for _ in range(5):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return min(took)

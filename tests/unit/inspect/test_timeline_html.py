"""The page that shows what happened: whole, self-contained, and safe whatever it is told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from projectionist.ops.inspect.timeline_html import TimelineBar, page

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


class Tags(HTMLParser):
    """Which tags are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def bars(text: str) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", text)]


def test_bars_stand_where_and_as_long_as_they_were() -> None:
    text = page(
        "order/1",
        "abc",
        [
            TimelineBar("order.paid v2", "Orders", BEGIN, after(1), look="good", facts={"event": "e2"}),
            TimelineBar("intent Receipt", "Orders", after(1), after(4), depth=1),
            TimelineBar("attempt 1", "relay", after(3), None, depth=2, look="wait"),
        ],
    )
    assert bars(text) == [(0, 25), (25, 75), (75, 0.35)]
    assert "Trace <code>abc</code>. 3 steps in 4.00 s" in text
    assert "<dt>event</dt><dd>e2</dd>" in text
    assert ">open</span>" in text


def test_nothing_is_told_as_nothing() -> None:
    assert "Nothing of it is known here" in page("order/9", None, [])


@given(st.text(), st.text(), st.floats(-10, 10), st.floats(0, 10))
def test_whatever_it_is_told_the_page_is_whole_and_runs_no_script(
    name: str, fact: str, start: float, took: float
) -> None:
    bar = TimelineBar(
        name + "<script>", fact, after(start), after(start + took), facts={name: fact + "</dd><img>"}
    )
    text = page(name, fact, [TimelineBar("first", "x", BEGIN), bar])
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not {"script", "img", "link"} & tags.seen
    assert all(left + width <= 100.001 for left, width in bars(text))

"""Whatever bytes a producer sends as headers or subject: they end no process and stop no other event."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.core.nats import connections
from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BAD = [
    b"\x00",
    b"\x1e",
    b"\x1f",
    b"\x7f",
    b"\xff",
    *(letter.encode() for letter in "\u200b\u2028\ue000\u0378\U000e0001"),
]
"""What divides values in a statement, what PostgreSQL refuses, what is no UTF-8, and one of each invisible kind."""
CODED = ["ce-id", "ce-source", "ce-type", "ce-aggregatetype", "ce-correlationid", "ce-causationid", "ce-time"]
TRACES = ["traceparent", "tracestate", "ce-traceparent", "ce-tracestate"]


class Raw:
    """Publishes bytes as they are."""

    def __init__(self, live: ConsumerHarness) -> None:
        self._live = live
        self._count = 0

    async def publish(self, *messages: tuple[bytes, bytes]) -> None:
        """Store messages, given as the last token of their subject and their headers."""
        client = await connections.connect(self._live.settings.nats, name="raw")
        body = msgspec.json.encode(OrderPlaced("ann", 5))
        for token, head in messages:
            assert client.put(self._live.stream.subject("order", "").encode() + token, b"", head, body)  # type: ignore[attr-defined]
        await client.flush()
        await client.close()
        self._count += len(messages)
        jetstream = self._live.nats.jetstream()

        async def stored() -> bool:
            return (await jetstream.stream_info(self._live.stream.name)).state.messages == self._count

        await eventually(stored)


def block(headers: dict[str, bytes]) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in headers.items())
    return b"NATS/1.0\r\n" + lines + b"\r\n"


def usual(name: str) -> dict[str, bytes]:
    made = headers_of(OrderPlaced("ann", 5), name, 1, id=name, source="shop", kind="order")
    return {header: value.encode() for header, value in made.items()}


def coded(raw: bytes) -> bytes:
    return b"".join(b"%%%02X" % byte for byte in raw)


async def test_no_character_in_any_header_ends_a_process_or_stops_another_event(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    good: list[tuple[bytes, bytes]] = []
    bad: list[tuple[bytes, bytes]] = []
    traced: list[tuple[bytes, bytes]] = []
    for number, letter in enumerate(BAD):
        for header in CODED:
            given = usual(f"{header}{number}")
            value = given.get(header, b"2026-01-01T10:00:00Z" if header == "ce-time" else b"ab")
            at = 10 if header == "ce-time" else 1
            bad.append(
                (b"b%d" % len(bad), block(given | {header: value[:at] + coded(letter) + value[at + 1 :]}))
            )
        for header in TRACES:
            name = f"{header}{number}"
            context = {"traceparent": f"01-{TRACE}-".encode(), "tracestate": b"a=b"}
            context[header.removeprefix("ce-")] += coded(letter) if header.startswith("ce-") else letter
            prefix = "ce-" if header.startswith("ce-") else ""
            traced.append((name.encode(), block(usual(name) | {prefix + k: v for k, v in context.items()})))
        good.append((b"g%d" % number, block(usual(f"g{number}"))))
    mixed = [one for at in range(len(bad)) for one in (bad[at], *traced[at : at + 1], *good[at : at + 1])]

    await Raw(live).publish(*mixed)
    await live.settle(s.Orders, s.Spend)

    applied = {name.decode() for name, _ in good + traced}
    assert {row[0] for row in await live.rows("orders")} == applied
    states = await live.fetch("select distinct state from {s}.inbox")
    assert states == [("applied",)]
    kept = await inspection.rows(live, "quarantine", "headers", order="seq")
    assert sorted(row[0] for row in kept) == sorted(2 * [head for _, head in bad]), (
        "each by both consumers, as it came"
    )
    strange = "select count(*) from {s}.inbox where traceparent is not null and id like '%traceparent%'"
    assert await live.value(strange) == 0
    assert (
        await live.value("select count(*) from {s}.inbox where tracestate is not null and id like '%state%'")
        == 0
    )


async def test_a_time_that_no_column_takes_is_refused_before_its_event_is_parked(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    bad = await live.publish(OrderPaid(5), "o1", 2, headers={"ce-time": "2026-01-01%0010:00:00+00:00"})
    await live.publish(OrderPaid(5), "o2", 2, headers={"ce-time": "2026-01-01t10:00:00z"})
    await live.publish(OrderPlaced("bob", 5), "o2", 1)

    await live.settle(s.Orders)

    assert await inspection.rows(live, "quarantine", "seq", "reason", "aggregate", "version") == [
        (bad, "time", "order/o1", 2)
    ]
    assert await live.head(s.Orders, "order/o2") == (2, "clear", 0)


async def test_subjects_that_are_not_utf8_stand_apart_in_quarantine_and_stay_there(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    nameless = {name: value for name, value in usual("x").items() if name != "ce-aggregateid"}
    tokens = [b"\xff", b"\xfe", "\ufffd".encode(), b"a\x1fb"]
    await Raw(live).publish(
        *((token, block(nameless | {"ce-id": b"e%d" % n})) for n, token in enumerate(tokens))
    )

    await live.settle(s.Orders)
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        for seq in range(1, len(tokens) + 1):
            await verbs.retry((1, seq), Act("ops", "the test wants it"))
        await inspection.reaches(len(tokens), inspection.count, live, "quarantine", attempts=1)

    assert await live.rows("orders") == []
    rows = await inspection.rows(live, "quarantine", "reason", "state", "subject", order="seq")
    assert [row[:2] for row in rows] == [("subject", "quarantined")] * len(tokens)
    assert len({subject for _, _, subject in rows}) == len(tokens)


async def test_headers_beyond_all_measure_are_quarantined_as_they_came(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    many = block(usual("o1")).replace(b"\r\n\r\n", b"\r\n" + b"a: b\r\n" * 10_000 + b"\r\n")
    most = block(usual("o2") | {"x": b"y" * 65_000})
    await Raw(live).publish((b"o1", many), (b"o2", most), (b"o3", block(usual("o3"))))

    await live.settle(s.Orders)

    assert [row[0] for row in await live.rows("orders")] == ["o2", "o3"]
    assert await inspection.rows(live, "quarantine", "reason", "headers") == [("headers", many)]


async def test_a_gap_whose_version_cannot_be_read_says_where_it_is(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    bad = await live.publish(OrderPlaced("ann", 5), "o1", 1, headers={"ce-time": "yesterday"})
    await live.publish(OrderNoted("two"), "o1", 2)

    async with live.running(s.Orders):
        await inspection.reaches("lost", inspection.value, live, "positions", "finding", aggregate="order/o1")
        detail = await inspection.value(live, "incidents", "detail")

    assert (
        f"order/o1 lacks version 1: version 1 is in quarantine, at sequence {bad}: time. Next: correct it"
        in detail
    )

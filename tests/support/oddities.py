"""Messages that nobody should send, as hypothesis makes them: any bytes, and what comes close to an event."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

FIELDS = [
    *("ce-id", "ce-source", "ce-type", "ce-schemaversion", "ce-aggregatetype", "ce-aggregateid"),
    *(
        "ce-aggregateversion",
        "ce-time",
        "ce-correlationid",
        "ce-causationid",
        "ce-traceparent",
        "ce-tracestate",
    ),
    *("traceparent", "tracestate", "content-type", "Nats-Msg-Id", "X-Other"),
]
_TRACE = b"01-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"


class Message(msgspec.Struct, frozen=True):
    """One message as it goes over the wire."""

    token: bytes
    """What stands in its subject for the aggregate."""
    head: bytes
    data: bytes


_ANY = st.binary(max_size=60)
_CODED = st.text(max_size=8).map(
    lambda t: "".join(f"%{b:02X}" for b in t.encode("utf-8", "replace")).encode()
)
KNOWN = (
    *(b"", b" ", b"\t", b"0", b"-1", b"1", b"2", b"1e3", b"+1", b"1_0", "\u0661".encode(), b"9" * 5000),
    *(b"9223372036854775807", b"9223372036854775808", b"2147483648"),
    *(b"2026-01-01%0010:00:00+00:00", b"2026-01-01\x0010:00:00+00:00", b"2026-01-01T24:00:00Z"),
    *(b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59.999999-23:59", b"2026-W01-1T00:00:00Z", b"now"),
    *(
        _TRACE + b"-\x1fx",
        _TRACE + b"-%00",
        _TRACE + b"-" + b"x" * 200_000,
        _TRACE,
        b"00" + _TRACE[2:] + b"-x",
    ),
    *(
        b"%",
        b"%%",
        b"%0",
        b"%ED%A0%80",
        b"%C3",
        b"%00",
        b"%1F",
        b"%1E",
        b"%0D%0A",
        b"\x1f",
        b"\x1e",
        b"\x00",
    ),
    *(b"\xff", b"\xc3\x28", "\u200b".encode(), "\u202e".encode(), b"a/b", b"/", b"//", b"x" * 70_000),
    *(b"order.placed", b"order.noted", b"order.paid", b"order", b"good", b"shop"),
    *(b"application/cloudevents+json", b"application/cloudevents+json; charset=latin-1"),
)
"""Values of headers that come close to what they should be, or are far from it."""
_KNOWN = st.sampled_from(KNOWN)
_VALUES = _KNOWN | _CODED | _ANY
_NAMES = (
    st.sampled_from(FIELDS).map(str.encode) | st.sampled_from(FIELDS).map(lambda n: n.upper().encode()) | _ANY
)


@st.composite
def _heads(draw: st.DrawFn) -> bytes:
    """The headers of an event of which some were meddled with, or anything."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([b"NATS/1.0\r\n", b"", b"NATS/1.0 503\r\n"])) + draw(_ANY) + b"\r\n\r\n"
    kind = draw(
        st.sampled_from([b"order.placed", b"order.noted", b"order.paid", b"order.shipped", b"unheard.of"])
    )
    version = b"%d" % draw(st.integers(1, 3))
    lines = [
        *(
            (b"ce-id", b"odd-" + draw(st.binary(min_size=8, max_size=8)).hex().encode()),
            (b"ce-source", b"odd"),
        ),
        *((b"ce-type", kind), (b"ce-aggregatetype", b"order"), (b"ce-aggregateversion", version)),
    ]
    for name, value in draw(st.lists(st.tuples(_NAMES, _VALUES), max_size=4)):
        if draw(st.booleans()):
            lines = [line for line in lines if line[0] != name]
        lines.insert(draw(st.integers(0, len(lines))), (name, value))
    lines += [(b"x-%d" % (n % 7), b"y") for n in range(draw(st.sampled_from([0, 0, 0, 0, 100, 5000])))]
    space = draw(st.sampled_from([b": ", b":", b":  "]))
    return b"NATS/1.0\r\n" + b"".join(name + space + value + b"\r\n" for name, value in lines) + b"\r\n"


_TEXTS = st.text(max_size=20) | st.sampled_from(["\0", "\ud800", "x" * 100_000, "1e999", "\x1f", "\u202e"])
_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)


def _event_like(customer: Any, cents: Any, text: Any) -> bytes:
    return json.dumps({"customer": customer, "cents": cents, "text": text}).encode("utf-8", "surrogatepass")


BODIES = (b"", b"{}", b"[" * 100_000, b'{"a":' * 5_000, b"NaN", b'{"cents":1e400}', b"\xef\xbb\xbf{}")
_BODIES = (
    st.builds(_event_like, _TEXTS, st.integers(-(2**70), 2**70), _TEXTS)
    | st.builds(_event_like, _JSON, _JSON, _JSON)
    | st.binary(max_size=100)
    | st.sampled_from(BODIES)
    | st.sampled_from([b'{"customer":"eve","cents":5,"text":"fine"}'])
)
_NEVER_IN_TOKENS = set(b" \t\r\n.*>\0")
TOKENS = (b"odd-1", b"odd-2", b"\xff", b"\xfe", b"\x1f", b"\x01", "\u202e".encode(), b"o" * 700)
_TOKENS = st.sampled_from(TOKENS) | st.binary(min_size=1, max_size=12).map(
    lambda b: bytes(c for c in b if c not in _NEVER_IN_TOKENS) or b"odd-3"
)

messages = st.builds(Message, _TOKENS, _heads(), _BODIES)
"""Any message to a subject of the shop."""

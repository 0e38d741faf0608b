"""Messages of somebody who means ill, by the thousand: made by seed, and sooner than by hypothesis."""

from __future__ import annotations

import json
from random import Random

from tests.support.oddities import BODIES, FIELDS, KNOWN, TOKENS, Message

STEERS = "\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\u2028\x85"
TYPES = ("order.placed", "order.noted", "order.paid", "order.shipped", "unheard.of", f"t{STEERS}")
LARGE = (
    b'{"customer":"' + b"\\u00e9" * 20_000 + b'"}',
    b'{"text":[' + b"[]," * 30_000 + b"1]}",
    b'{"text":"' + b"\\ud83d\\ude00" * 10_000 + b'"}',
    b'{"cents":' + b"9" * 50_000 + b"}",
    b'{"text":' + b"[" * 60 + b"]" * 60 + b"}",
)


def hostile(seed: int, count: int) -> list[Message]:
    """Make so many messages: some are events with a flaw or two, some are no events at all."""
    by = Random(seed)
    return [_message(by, n) for n in range(count)]


def _message(by: Random, n: int) -> Message:
    return Message(_token(by), _head(by, n), _body(by))


def _token(by: Random) -> bytes:
    if by.random() < 0.3:
        return by.choice(TOKENS)
    if by.random() < 0.1:
        return f"t{STEERS}".encode().replace(b" ", b"")
    return b"odd-%d" % by.randrange(200)


def _head(by: Random, n: int) -> bytes:
    if by.random() < 0.03:
        return (
            by.choice([b"NATS/1.0\r\n", b"NATS/1.0 503\r\n", b""])
            + by.randbytes(by.randrange(40))
            + b"\r\n\r\n"
        )
    lines = [
        (b"ce-id", b"odd-%d" % (by.randrange(n + 1) if by.random() < 0.1 else n)),
        (b"ce-source", by.choice([b"odd", f"odd{STEERS}".encode(), b"shop"])),
        (b"ce-type", by.choice(TYPES).encode()),
        (b"ce-aggregatetype", by.choice([b"order", b"order", b"order", f"o{STEERS}".encode()])),
        (b"ce-aggregateversion", b"%d" % by.randrange(1, 5)),
    ]
    for _ in range(by.choice([0, 0, 1, 1, 2, 4])):
        name, value = _line(by)
        if by.random() < 0.6:
            lines = [line for line in lines if line[0] != name]
        lines.insert(by.randrange(len(lines) + 1), (name, value))
    if by.random() < 0.02:
        lines += [(b"x-%d" % k, b"y") for k in range(by.choice([100, 1_000]))]
    return b"NATS/1.0\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in lines) + b"\r\n"


def _line(by: Random) -> tuple[bytes, bytes]:
    name = by.choice(FIELDS).encode() if by.random() < 0.9 else by.randbytes(by.randrange(1, 20))
    value = (
        by.choice(KNOWN)
        if by.random() < 0.7
        else by.choice([STEERS.encode(), by.randbytes(by.randrange(60))])
    )
    if len(value) > 10_000 and by.random() < 0.9:
        value = value[:200]
    return name, value


def _body(by: Random) -> bytes:
    chance = by.random()
    if chance < 0.02:
        return by.choice(LARGE)
    if chance < 0.15:
        return by.choice(BODIES)
    if chance < 0.25:
        return by.randbytes(by.randrange(200))
    texts = [
        "eve",
        STEERS,
        "\0",
        "\ud800",
        "x" * by.randrange(300),
        7,
        None,
        [STEERS],
        {"a": STEERS},
        2**70,
        -1,
        1e300,
    ]
    body = {name: by.choice(texts) for name in ("customer", "cents", "text") if by.random() < 0.9}
    if by.random() < 0.3:
        body = {"customer": STEERS, "cents": 5, "text": STEERS}
    return json.dumps(body, ensure_ascii=by.random() < 0.5).encode("utf-8", "surrogatepass")

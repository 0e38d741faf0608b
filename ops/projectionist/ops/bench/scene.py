"""What a contender is told about the run it is part of, through its environment."""

from __future__ import annotations

import os

import msgspec

VARIABLE = "BENCH_SCENE"


class Scene(msgspec.Struct, frozen=True):
    """One run: the stream with the load, the schema of its own, and how the consumer is registered there."""

    stream: str = "BENCH"
    schema: str = "projectionist"
    durable: str = ""
    consumer: int = 0


def told() -> Scene:
    """The scene of this process; a nameless one where there is none, so that every module can be imported."""
    return msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=Scene)

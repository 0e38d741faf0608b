"""The figures that a benchmark tells of its processes are theirs alone."""

from __future__ import annotations

from resource import RUSAGE_SELF, getrusage

import pytest

from projectionist.bench.children import running
from projectionist.bench.scene import Scene
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings

SCENE = Scene(stream="S", schema="bench_1", durables=("d",), consumer=7)
SETTINGS = Settings(
    postgres=Postgres(url=Url("postgresql://u@h/d")), nats=Nats(url=(Url("nats://127.0.0.1:4222"),))
)
HELD_MB = 300
SHORT = ("-c", "import time; time.sleep(0.3)")


@pytest.mark.asyncio
async def test_the_memory_of_the_benchmark_is_not_counted_as_that_of_a_contender() -> None:
    held = bytearray(HELD_MB << 20)
    held[:: 1 << 12] = b"x" * (len(held) >> 12)
    async with running(SETTINGS, SCENE, SHORT) as child:
        assert await child.over(10) == 0
    assert getrusage(RUSAGE_SELF).ru_maxrss >= len(held) >> 10
    assert 1 < child.rss_mb < HELD_MB / 3

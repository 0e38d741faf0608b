"""Who may take messages out of a stream."""

from __future__ import annotations

import pytest

from projectionist.ops.doctor.stream_integrity import PublishRights, check
from projectionist.runner.jetstream.api import StreamConfig

DELETE, PURGE = "$JS.API.STREAM.MSG.DELETE.S", "$JS.API.STREAM.PURGE.S"
OPEN = StreamConfig()


@pytest.mark.parametrize(
    ("config", "rights", "here", "level"),
    [
        (StreamConfig(deny_delete=True, deny_purge=True), PublishRights(), False, "well"),
        (OPEN, PublishRights(), False, "attention"),
        (OPEN, PublishRights(), True, "note"),
        (OPEN, None, False, "note"),
        (OPEN, PublishRights(allow=["$JS.API.>"]), False, "attention"),
        (OPEN, PublishRights(allow=["$JS.API.STREAM.INFO.S"]), False, "well"),
        (OPEN, PublishRights(deny=["$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.*"]), False, "well"),
        (OPEN, PublishRights(deny=[PURGE]), False, "attention"),
        (StreamConfig(deny_delete=True), PublishRights(deny=[PURGE]), False, "well"),
        (StreamConfig(deny_purge=True), PublishRights(allow=[PURGE]), False, "well"),
        (StreamConfig(deny_purge=True), PublishRights(allow=[DELETE]), False, "attention"),
    ],
)
def test_a_stream_that_can_be_rewritten(
    config: StreamConfig, rights: PublishRights | None, here: bool, level: str
) -> None:
    found = check("S", config, rights, here=here)
    assert found.level == level
    assert bool(found.mend) == (level != "well")

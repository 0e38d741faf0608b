"""What a process of a benchmark is told about the run it is part of, through its environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.settings.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projectionist.core.settings.settings import Settings

VARIABLE = "BENCH_SCENE"
STUB = "BENCH_STUB"
"""The variable that holds the URL of the server that says yes."""


class Scene(msgspec.Struct, frozen=True):
    """One run: the stream with the load, the schema of its own, and how the consumer is registered there."""

    stream: str = "BENCH"
    schema: str = "projectionist"
    durables: tuple[str, ...] = ()
    """Of each consumer that plays in it."""
    consumer: int = 0
    """The number of the first."""

    @property
    def durable(self) -> str:
        """Return that of the first."""
        return self.durables[0]


def told() -> Scene:
    """Return the scene of this process; a nameless one where there is none, so that every module can be imported."""
    return msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=Scene)


def environment(settings: Settings, scene: Scene) -> dict[str, str]:
    """Return what a process needs to play in the scene, whatever settings are about where it is started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROJECTIONIST_")}
    places = msgspec.structs.replace(settings.postgres, schema=scene.schema), settings.nats
    told = dict(
        variable for section in zip(("POSTGRES", "NATS"), places, strict=True) for variable in _told(*section)
    )
    return kept | told | {VARIABLE: msgspec.json.encode(scene).decode()}


def _told(section: str, values: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(values):
        value = getattr(values, field.name)
        if value == field.default:
            continue
        items = value if isinstance(value, tuple) else (value,)
        yield f"PROJECTIONIST_{section}__{field.encode_name.upper()}", ",".join(map(_text, items))


def _text(value: object) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)

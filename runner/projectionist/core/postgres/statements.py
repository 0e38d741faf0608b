"""SQL has one home: a file a statement, in the `sql` folder of the room that runs it, named by verb and object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from projectionist.core.identifiers import quoted

SCHEMA = "{schema}"
"""What a statement writes where the name of our own schema belongs; nothing else is replaced."""


class Statements(Mapping[str, str]):
    """The statements of a package and of every room in it, with the schema's quoted name filled in."""

    def __init__(self, package: str, schema: str) -> None:
        self.schema = schema
        self._texts = _texts(package, quoted(schema, what="schema"))

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._texts))

    def __len__(self) -> int:
        return len(self._texts)


@cache
def _texts(package: str, schema: str) -> Mapping[str, str]:
    """Read once a process: two hundred files, read while a batch waits, would keep its event loop for milliseconds."""
    found: dict[str, str] = {}
    for entry in _files(files(package)):
        name = entry.name.removesuffix(".sql")
        assert name not in found, f"{package} has two statements of the name {name}"
        found[name] = entry.read_text("utf-8").replace(SCHEMA, schema)
    return found


def _files(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry)
        elif folder.name == "sql" and entry.name.endswith(".sql"):
            yield entry

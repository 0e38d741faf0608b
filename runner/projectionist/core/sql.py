"""SQL has one home: a file a statement, beside the code that runs it, named like the method that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from projectionist.core.identifiers import quoted

SCHEMA = "{schema}"
"""What a statement writes where the name of our own schema belongs; nothing else is replaced."""


class Statements(Mapping[str, str]):
    """The statements of one package's `sql` folder, with the schema's quoted name filled in."""

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
    return {
        entry.name.removesuffix(".sql"): entry.read_text("utf-8").replace(SCHEMA, schema)
        for entry in files(package).joinpath("sql").iterdir()
        if entry.name.endswith(".sql")
    }

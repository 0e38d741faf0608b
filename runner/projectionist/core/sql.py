"""SQL has one home: a file a statement, beside the code that runs it, named like the method that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files

from projectionist.core.identifiers import quoted

SCHEMA = "{schema}"
"""What a statement writes where the name of our own schema belongs; nothing else is replaced."""


class Statements(Mapping[str, str]):
    """The statements of one package's `sql` folder, with the schema's quoted name filled in."""

    def __init__(self, package: str, schema: str) -> None:
        name = quoted(schema, what="schema")
        self.schema = schema
        self._texts = {
            entry.name.removesuffix(".sql"): entry.read_text("utf-8").replace(SCHEMA, name)
            for entry in files(package).joinpath("sql").iterdir()
            if entry.name.endswith(".sql")
        }

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._texts))

    def __len__(self) -> int:
        return len(self._texts)

"""SQL has one home: a file a statement, in the `sql` folder of the room that runs it, named by verb and object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from projectionist.core.identifiers import quoted

SCHEMA = "{schema}"
"""What a statement writes where the name of our own schema belongs."""

_INSIDE = re.compile(r"\{(?P<part>[a-z]+)/(?P<name>[a-z_]+)(?:\((?P<given>[^{}]*)\))?\}")
"""What a statement writes where another one belongs, of any part, with its values: `{runner/select_status($2)}`."""
_VALUE = re.compile(r"\$(\d+)")
_BETWEEN = re.compile(r",(?![^(]*\))")
"""Between two values, not inside one."""


_OWN: set[str] = set()


def is_own(text: str) -> bool:
    """Return whether this is one of the statements below: nobody but our migrations changes what it answers."""
    return text in _OWN


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
    found = {name: _whole(text).replace(SCHEMA, schema) for name, text in _raw(package).items()}
    _OWN.update(found.values())
    return found


@cache
def _raw(package: str) -> Mapping[str, str]:
    """Return the statements of a package as they are written."""
    found: dict[str, str] = {}
    for entry in _files(files(package)):
        name = entry.name.removesuffix(".sql")
        assert name not in found, f"{package} has two statements of the name {name}"
        found[name] = entry.read_text("utf-8")
    return found


def _whole(text: str) -> str:
    """Return a statement with those inside it: several that are asked at once are one, and each is written once."""

    def inside(one: re.Match[str]) -> str:
        given = [each.strip() for each in _BETWEEN.split(one["given"] or "")]
        other = _whole(_raw(f"projectionist.{one['part']}")[one["name"]])
        return _VALUE.sub(lambda value: given[int(value[1]) - 1], other)

    return _INSIDE.sub(inside, text)


def _files(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry)
        elif folder.name == "sql" and entry.name.endswith(".sql"):
            yield entry

"""Layers of settings: environment over file over default, and errors that name the key and where it stands.

A section is a msgspec struct. `Layers` reads and merges, `build` checks and makes the sections.
"""

from __future__ import annotations

import copy
import tomllib
import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import MASK, Secret, Url

PREFIX = "PROJECTIONIST_"
ACTOR = "PROJECTIONIST_ACTOR"
"""Who acts, for commands that record it: of the person at the terminal, and so no setting of a deployment."""
NESTED = "__"

Key = tuple[str, ...]
S = TypeVar("S", bound=msgspec.Struct)


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a section of keys",
    Url: "a URL",
}


class Text(str):
    """A value from the environment: text until the field's type says what it is."""

    __slots__ = ()


class Layers:
    """The merged tree of a file and the environment, which remembers where each value came from."""

    def __init__(self, schema: type[msgspec.Struct], path: Path | None, env: Mapping[str, str]) -> None:
        self._file = str(path)
        self._filed: dict[str, Any] = _parsed(path) if path else {}
        self.tree = copy.deepcopy(self._filed)
        self._origins: dict[Key, str] = {}
        for variable in sorted(env):
            if variable.startswith(PREFIX) and variable != ACTOR:
                self._lay(schema, variable, env[variable])

    def fall_back(self, section: str, name: str, variable: str, env: Mapping[str, str]) -> None:
        """Take a key that neither file nor environment sets from a variable that is not ours."""
        node = self.tree.setdefault(section, {})
        if env.get(variable) and isinstance(node, dict) and name not in node:
            node[name] = Text(env[variable])
            self._origins[section, name] = variable

    def origin(self, at: Key) -> str:
        """Return where the value of a key stands, for people."""
        if at in self._origins:
            return self._origins[at]
        found = [variable for key, variable in self._origins.items() if key[: len(at)] == at]
        if self._filed and _holds(self._filed, at):
            found.insert(0, self._file)
        return ", ".join(found) or "default"

    def _lay(self, schema: type[msgspec.Struct], variable: str, text: str) -> None:
        """Lay one variable over the tree: a field's name is in small letters, a user's as in the file."""
        node, at = self.tree, Key()
        kind: Any = schema
        *sections, last = variable.removeprefix(PREFIX).split(NESTED)
        for section in sections:
            name = _named(section, kind, node)
            kind, at = _inside(kind, name), (*at, name)
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise SettingsError(f"{variable}: {'.'.join(at)} is not a section, it holds no further keys")
        name = _named(last, kind, node)
        node[name] = Text(text)
        self._origins[(*at, name)] = variable


class Raw(dict[str, Any]):
    """A section kept for whoever knows its keys (`Settings.provider`); any value may be a secret."""

    def __init__(self, tree: dict[str, Any], layers: Layers) -> None:
        super().__init__(tree)
        self.layers = layers

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {MASK}" for key in self) + "}"

    __str__ = __repr__


def build(cls: type[S], tree: object, at: Key, layers: Layers) -> S:
    """Return the section `cls` out of a merged tree; SettingsError names the first wrong key and its place."""
    if not isinstance(tree, dict):
        raise _wrong(at, "expected a section of keys", layers)
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    for name in tree:
        if name not in fields:
            raise unknown(name, fields, at, layers)
    for name, field in fields.items():
        if field.required and name not in tree:
            raise SettingsError(
                f"{'.'.join((*at, name))} is not set", remedy=f"Set it to {_allowed(field.type)}"
            )
    values = {
        name: _value(field.type, tree[name], (*at, name), layers)
        for name, field in fields.items()
        if name in tree
    }
    try:
        return cls(**values)
    except ValueError as error:
        raise _wrong(at, str(error), layers) from None


def unknown(name: str, allowed: Mapping[str, object], at: Key, layers: Layers) -> SettingsError:
    """Return the error for a name that is not among `allowed`, with the nearest one."""
    near = get_close_matches(name, allowed, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else ""
    remedy = f"{hint} Allowed here: {', '.join(sorted(allowed)) or 'nothing'}".strip()
    return _wrong((*at, name), "no such key", layers, remedy=remedy)


def _value(kind: Any, value: object, at: Key, layers: Layers) -> Any:
    section = _section(kind)
    if section is not None:
        return build(section, value, at, layers)
    if get_origin(kind) is dict and isinstance(value, dict):
        return {name: _value(get_args(kind)[1], one, (*at, name), layers) for name, one in value.items()}
    if kind is Raw:
        if not isinstance(value, dict):
            raise _wrong(at, "expected a section of keys", layers)
        return Raw(value, layers)
    try:
        plain = _from_text(kind, value) if isinstance(value, Text) else value
        return msgspec.convert(plain, kind, dec_hook=_decode)
    except msgspec.ValidationError:
        # Its message may quote the value, which may be a secret set in the wrong place.
        raise _wrong(at, f"expected {_allowed(kind)}", layers) from None


def _wrong(at: Key, problem: str, layers: Layers, *, remedy: str = "") -> SettingsError:
    return SettingsError(f"{'.'.join(at) or 'settings'} ({layers.origin(at)}): {problem}", remedy=remedy)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _holds(tree: Any, at: Key) -> bool:
    for name in at:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


def _named(segment: str, kind: Any, node: dict[str, Any]) -> str:
    if get_origin(kind) is dict:
        same = [name for name in node if name.casefold() == segment.casefold()]
        return same[0] if len(same) == 1 else segment
    return segment.lower()


def _inside(kind: Any, name: str) -> Any:
    section = _section(kind)
    if section is not None:
        return {field.name: field.type for field in msgspec.structs.fields(section)}.get(name)
    return get_args(kind)[1] if get_origin(kind) is dict else None


def _section(kind: Any) -> type[msgspec.Struct] | None:
    return next(
        (one for one in _options(kind) if isinstance(one, type) and issubclass(one, msgspec.Struct)), None
    )


def _options(kind: Any) -> Iterator[Any]:
    """Yield the alternatives of a type, without annotations and without None."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        for one in get_args(kind):
            yield from _options(one)
    elif kind is not type(None):
        yield kind


def _from_text(kind: Any, text: Text) -> Any:
    """Return what a text of the environment means for a field; the items of a list are separated by commas."""
    options = [*_options(kind)]
    if any(get_origin(one) is Literal and str(text) in get_args(one) for one in options):
        return str(text)
    option = options[0]
    if get_origin(option) in (tuple, list):
        return [part.strip() for part in text.split(",") if part.strip()]
    return msgspec.convert(str(text), option, strict=False) if option in (bool, int, float) else str(text)


def _decode(kind: type, value: object) -> object:
    if issubclass(kind, Secret) and isinstance(value, str) and value:
        return kind(value)
    raise ValueError("not text")


def _allowed(kind: Any) -> str:
    """Return what a field takes, in words."""
    metas = [meta for one in (kind, *get_args(kind)) for meta in getattr(one, "__metadata__", ())]
    words = [meta.description for meta in metas if meta.description] or [_word(one) for one in _options(kind)]
    lowest = [f", {meta.ge} or more" for meta in metas if meta.ge is not None]
    return " or ".join(words) + "".join(lowest)


def _word(option: Any) -> str:
    if get_origin(option) is Literal:
        return " or ".join(repr(value) for value in get_args(option))
    if get_origin(option) in (tuple, list):
        return f"a list, each item {_allowed(get_args(option)[0])}"
    return _WORDS.get(get_origin(option) or option, "text that is not empty")

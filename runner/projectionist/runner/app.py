"""App: the projections, reactors and providers of one deployment, and how a command line finds it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from projectionist.core.errors import DefinitionError, ProjectionistError
from projectionist.projections.definition import Definition, definition

ProviderFactory = Callable[..., Any]


class AppError(ProjectionistError):
    """The APP argument names nothing that can be run."""


class App:
    """What one deployment runs. Providers are factories: only the relay makes them, and loads their secrets."""

    def __init__(
        self, *, projections: Iterable[type] = (), providers: Mapping[str, ProviderFactory] | None = None
    ) -> None:
        self.definitions: tuple[Definition, ...] = tuple(definition(cls) for cls in projections)
        self.providers = dict(providers or {})
        _refuse_twins(self.definitions)

    def definition(self, name: str) -> Definition:
        """The consumer registered as `name`, or by its class's name."""
        for one in self.definitions:
            if name in {one.name, one.cls.__name__}:
                return one
        known = ", ".join(sorted(one.name for one in self.definitions)) or "none"
        raise AppError(f"this app has no consumer {name!r}", remedy=f"It has: {known}")

    def chosen(self, names: Sequence[str]) -> tuple[Definition, ...]:
        """These consumers, or all when none is named."""
        return tuple(self.definition(name) for name in names) or self.definitions


def _refuse_twins(definitions: Sequence[Definition]) -> None:
    names = [one.name for one in definitions]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(
                f"two consumers of this app are called {name!r}", remedy='Give one another name: name="…"'
            )


def load_app(spec: str) -> App:
    """The App that `module:attribute` names, looked for from the current folder as Python itself would."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise AppError(f"{spec!r} names no app", remedy="Write module:attribute, such as shop.app:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise AppError(
            f"there is no module {module_name!r} here", remedy="Run the command in the folder that holds it"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise AppError(f"module {module_name!r} has no {attribute!r}", remedy="Define it: app = App(projections=[…])")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise AppError(f"{spec} is a {type(found).__name__}, not an App", remedy="Name the App itself: module:app")
    return found

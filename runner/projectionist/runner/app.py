"""App: the projections, reactors and providers of one deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from projectionist.core.errors import ProjectionistError
from projectionist.projections.definition import Definition, check_distinct, definition

ProviderFactory = Callable[..., Any]


class AppError(ProjectionistError):
    """The app has no consumer of this name."""


class App:
    """What one deployment runs. Providers are factories: only the relay makes them, and loads their secrets."""

    def __init__(
        self, *, projections: Iterable[type] = (), providers: Mapping[str, ProviderFactory] | None = None
    ) -> None:
        self.definitions: tuple[Definition, ...] = tuple(definition(cls) for cls in projections)
        self.providers = dict(providers or {})
        check_distinct(self.definitions)

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

"""`@event`: dataclasses and Pydantic models as the classes of events, for what a service has already."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.pydantic_models import is_model
from projectionist.projections.event import Event, register

C = TypeVar("C", bound=type)  # no narrower: pyright decides before it has seen that the class is a dataclass


def event(
    *,
    type: str,  # noqa: A002 the word users write
    schema: int = 1,
    formerly: tuple[str, ...] = (),
) -> Callable[[C], C]:
    """Declare a dataclass or a Pydantic model as the class of an event: `@event(type="order.placed")`.

    The class stays what it is, and is used wherever a subclass of `Event` is. `type`, `schema` and `formerly` are those
    of `Event`. Above `@dataclass`, since decorators work from below.
    """

    def declare(cls: Any) -> Any:
        _check_kind(cls)
        register(cls, type, schema, formerly)
        return cls

    return declare


def _check_kind(cls: Any) -> None:
    name = getattr(cls, "__name__", repr(cls))
    if not inspect.isclass(cls):
        raise DefinitionError(
            f"@event on {name}, which is no class", remedy="Put it on a dataclass or a model"
        )
    if issubclass(cls, Event):
        raise DefinitionError(
            f"@event on {name}, which is an Event",
            remedy=f'Write class {name}(Event, type="…") without @event',
        )
    if issubclass(cls, msgspec.Struct):
        raise DefinitionError(
            f"@event on {name}, which is a msgspec.Struct", remedy=f'Write class {name}(Event, type="…")'
        )
    if is_model(cls):
        _check_model(name, cls)
    elif "__dataclass_fields__" in vars(cls):
        _check_dataclass(name, cls)
    else:
        under = " itself; a base is" if is_dataclass(cls) else " or Pydantic model"
        raise DefinitionError(
            f"@event on {name}, which is no dataclass{under}",
            remedy="Put @event above @dataclass, or derive the class from pydantic.BaseModel",
        )


def _check_model(name: str, cls: Any) -> None:
    if "root" in cls.model_fields and getattr(cls, "__pydantic_root_model__", False):
        raise DefinitionError(
            f"@event on {name}, which is a RootModel, and a body is an object",
            remedy="Give a BaseModel a field for the value",
        )


def _check_dataclass(name: str, cls: Any) -> None:
    if hasattr(cls, "__pydantic_validator__"):
        raise DefinitionError(
            f"@event on {name}, which is a dataclass of Pydantic: its checks would be left out",
            remedy="Derive it from pydantic.BaseModel, or use dataclasses.dataclass",
        )
    if not _init_is_made(cls):
        raise DefinitionError(
            f"@event on {name}, a dataclass with an __init__ of its own, which reading a body does not call",
            remedy="Leave it out, and check in __post_init__",
        )
    for field in cls.__dataclass_fields__.values():
        if not field.init:
            raise DefinitionError(
                f"@event on {name}: {field.name} is field(init=False), and a body would have to hold it",
                remedy="Make it a property",
            )


def _init_is_made(cls: Any) -> bool:
    """Return whether `__init__` is the one that `dataclass` makes, from a text."""
    return bool(cls.__dataclass_params__.init) and cls.__init__.__code__.co_filename == "<string>"

"""Pydantic models inside events and intents, known by what they can do: pydantic itself is never imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


def is_model(cls: object) -> bool:
    """Return True for the class of a Pydantic model (version 2)."""
    return (
        isinstance(cls, type)
        and hasattr(cls, "__pydantic_validator__")
        and hasattr(cls, "model_validate_json")
    )


def read_model(cls: Any, value: object) -> Any:
    """Make a model of what stood in JSON. Raises ValueError, which names places and never values."""
    return _validated(cls, msgspec.json.encode(value))


def model_reader(cls: Any) -> Callable[[bytes], Any]:
    """Make the function from the bytes of a body to a model. It raises as msgspec's own decoders do."""

    def read(data: bytes) -> Any:
        _syntax(data)  # Pydantic reads NaN and Infinity, which are no JSON
        try:
            return _validated(cls, data)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from error

    return read


def write_model(value: Any) -> Any:
    """Return a model as what msgspec can write as JSON. Raises TypeError for anything else."""
    if not is_model(type(value)):
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return value.model_dump(mode="json", by_alias=True)


_syntax = msgspec.json.Decoder(msgspec.Raw).decode


def _validated(cls: Any, data: bytes) -> Any:
    try:
        return cls.model_validate_json(data)
    except ValueError as error:
        errors: Callable[[], list[Any]] = getattr(error, "errors", list)
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in errors()[:3])
        raise ValueError(f"is no {cls.__name__} ({told})") from error

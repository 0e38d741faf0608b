"""Instances of dataclasses and of Pydantic models, as type checkers know them: by an attribute of their class."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol


class DataclassLike(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class ModelLike(Protocol):
    """An instance of a Pydantic model."""

    __pydantic_validator__: ClassVar[Any]

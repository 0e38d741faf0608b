"""Makes the function from the bytes of a body to its event: a struct, a dataclass or a Pydantic model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.pydantic_models import is_model, model_reader, read_model
from projectionist.projections.bounds import check_of

OF_DECIMALS = (
    "msgspec.Meta bounds int and float. Write Annotated[Decimal, Bounds(ge=0)], from projectionist.api"
)


def decoder_of(cls: Any) -> Callable[[bytes], Any]:
    """Return the function that reads an event of this class. Raises DefinitionError for one that no body fits."""
    try:
        if is_model(cls):
            cls.model_rebuild()
            return model_reader(cls)
        decode = msgspec.json.Decoder(cls, dec_hook=read_model).decode
        _check_fields(cls)
        check = check_of(cls)
    except (TypeError, NameError) as error:
        raise DefinitionError(
            f"{cls.__name__} cannot be read from JSON: {error}",
            remedy=OF_DECIMALS
            if "on a numeric type" in str(error)
            else "Use types msgspec knows, defined in the module before the class",
        ) from error
    if check is None:
        return decode

    def checked(data: bytes) -> Any:
        event = decode(data)
        check(event, "$")
        return event

    return checked


def _check_fields(cls: type) -> None:
    """Refuse types that cannot be read from JSON: msgspec takes them, and then fails each event."""
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType), "an event is one"
    for field in info.fields:
        if (custom := _custom(field.type, set())) is not None:
            raise DefinitionError(
                f"{cls.__name__}.{field.name} holds a {custom.__name__}, which cannot be read from JSON",
                remedy="Declare it as a msgspec.Struct, a dataclass, a TypedDict or a Pydantic model",
            )


def _custom(found: object, seen: set[int]) -> Any:
    """Return the first class below this type that msgspec has no way to read; None if there is none."""
    if isinstance(found, msgspec.inspect.CustomType):
        return None if is_model(found.cls) else found.cls
    if id(found) in seen:
        return None
    seen.add(id(found))
    if isinstance(found, msgspec.inspect.DataclassType) and hasattr(found.cls, "__pydantic_validator__"):
        return found.cls  # its validation would be left out
    inner: tuple[object, ...] = ()
    if isinstance(found, list | tuple):
        inner = tuple(found)
    elif isinstance(found, msgspec.inspect.Type | msgspec.inspect.Field):
        inner = tuple(getattr(found, name) for name in found.__struct_fields__ if name != "cls")
    return next((custom for one in inner if (custom := _custom(one, seen)) is not None), None)

"""What `execute` returns for a statement that was put off: nobody can read its tag, for there is none yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TagRead(BaseException):
    """Somebody has read the tag of a statement that was put off. No error of an event, so that none is caught."""


def _read(self: UnreadTag, *_: Any, **__: Any) -> Any:
    object.__getattribute__(self, "_told")()
    raise TagRead(
        "the tag of a statement was read after its handler's batch, or before the statement was run"
    )


class UnreadTag:
    """Stands for a command tag until somebody looks at it, whom `told` hears of."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[], None]) -> None:
        object.__setattr__(self, "_told", told)

    # `is` and `type()` are the only questions that Python does not put to the object.
    __getattribute__ = __setattr__ = __delattr__ = __reduce_ex__ = __dir__ = _read
    __str__ = __repr__ = __format__ = __bytes__ = __fspath__ = _read
    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __reversed__ = _read
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _read
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _read
    __int__ = __float__ = __index__ = __complex__ = _read
    __call__ = __await__ = __copy__ = __deepcopy__ = _read

"""What makes an event the same event when it comes again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core import json_limits
from projectionist.runner.decoding.delivery import Reason, Refused
from projectionist.runner.decoding.validation import lacking

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Policy
    from projectionist.runner.decoding.header_parser import Fields

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_scalar = msgspec.json.Decoder(str | int | bool)


class Identities:
    """Source and id by a consumer's policy: fields of the body if it names some, else what came with it."""

    def __init__(self, policy: Policy, stream: str, names: tuple[str, ...]) -> None:
        """Take `names`, the headers of `fields`, the id's first."""
        self._policy, self._stream, self._names = policy, stream, names
        self.usual = not (policy.identity_fields or policy.identity_scope or policy.identity_types)
        """Whether an id that stands in the headers is the whole identity."""

    def identify(
        self, fields: Fields, data: bytes, place: tuple[str | int | None, ...]
    ) -> tuple[str, str, bool]:
        """Return source, id, and whether no producer gave it; `place` stands for the event if nothing else does."""
        source, name = fields[1] or self._stream, fields[0]
        if self.usual and name:
            return source, name, False
        parts: list[str | int | bool]
        if own := self._policy.identity_types.get(str(fields[2])):
            source, parts = self._stream, [str(fields[2]), *self._values(data, own)]
        elif self._policy.identity_fields:
            source, parts = self._stream, self._values(data, self._policy.identity_fields)
        elif name is not None:
            parts = [name]
        elif fields[15]:
            source, parts = self._stream, [fields[15]]
        elif self._policy.identity == "required":
            text = lacking("id", self._names, "the event's id")
            raise Refused(Reason.IDENTITY, f"{text}, and identity = 'required'")
        else:
            return self._stream, ":".join(str(part) for part in place), True
        if parts == [""]:
            raise Refused(Reason.IDENTITY, f"header {self._names[0]} is empty")
        if self._policy.identity_scope and not own:
            parts.insert(0, str(fields[2]))
        return source, str(parts[0]) if len(parts) == 1 else msgspec.json.encode(parts).decode(), False

    def _values(self, data: bytes, names: tuple[str, ...]) -> list[str | int | bool]:
        if bad := json_limits.fault(data, self._policy.max_depth):
            raise Refused(Reason.IDENTITY, f"the body {bad}, and its identity stands in it")
        try:
            members = _members.decode(data)
            return [_scalar.decode(members[name]) for name in names]
        except KeyError as error:
            raise Refused(
                Reason.IDENTITY,
                f"the body has no {error.args[0]}, which its identity is made of by the settings",
            ) from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Refused(
                Reason.IDENTITY, f"the fields of its identity cannot be read from the body: {error}"
            ) from None

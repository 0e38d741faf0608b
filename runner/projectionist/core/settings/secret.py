"""Values that no log, error or `repr` may show."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

MASK = "***"

_USERINFO = re.compile(r"://.*@", re.DOTALL)


class Secret:
    """A text that shows itself as `***`; `reveal()` is the only way to it, so that its uses can be found."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself: hand it to the library that needs it, and keep it nowhere."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.reveal() == self._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not pickled or copied elsewhere")


class Url(Secret):
    """A server's URL: shows scheme, host, port and path; user, password, token and query stay hidden."""

    __slots__ = ()

    def __init__(self, value: str) -> None:
        super().__init__(value)
        if "://" not in value or not self.scheme:
            raise ValueError("a URL needs a scheme")

    @property
    def scheme(self) -> str:
        """Return what stands before `://`, in small letters."""
        return self._split().scheme

    @property
    def has_login(self) -> bool:
        """Return whether a password or a token stands in it."""
        user, given, password = self._split().netloc.rpartition("@")[0].partition(":")
        return (
            bool(password if self.scheme.startswith("postgres") else user or given)
            or "password" in self.parameters
        )

    def with_password(self, password: Secret) -> Url:
        """Return it with this password, for the user that it names."""
        parts = self._split()
        user, _, hosts = parts.netloc.rpartition("@")
        return Url(parts._replace(netloc=f"{user}:{quote(password.reveal(), safe='')}@{hosts}").geturl())

    @property
    def parameters(self) -> dict[str, str]:
        """Return the query's keys; the last value wins."""
        return {key: values[-1] for key, values in parse_qs(self._split().query).items()}

    def hosts(self) -> list[str]:
        """Return every host it names, by name, address or socket folder, without ports."""
        listed = f"{self._split().netloc.rpartition('@')[2]},{self.parameters.get('host', '')}"
        return [_without_port(host) for host in listed.split(",") if host]

    def _split(self) -> SplitResult:
        try:
            return urlsplit(self._value)
        except ValueError:
            # Its message quotes the URL.
            raise ValueError("not a URL") from None

    def __str__(self) -> str:
        # Up to the last "@": a password with "@", "/" or "?" unescaped must not spill into what is shown.
        hidden = _USERINFO.sub(f"://{MASK}@", self._value)
        place, query, _ = hidden.partition("?")
        return f"{place}?{MASK}" if query else place


def _without_port(host: str) -> str:
    if host.startswith("/"):
        return host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]

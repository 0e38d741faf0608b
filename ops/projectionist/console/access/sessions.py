"""Who is logged in, and what they may: links that work once, sessions that end, roles."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from enum import StrEnum
from hashlib import sha256

import msgspec

from projectionist.core import clock
from projectionist.core.printable_text import visible

MOST_SESSIONS = 1_000
MOST_LINKS = 10
MOST_NAME = 100


class Role(StrEnum):
    """What somebody may, the least first; each may what those before it may."""

    VIEW = "view"
    OPERATE = "operate"
    DESTROY = "destroy"

    def may(self, needed: Role) -> bool:
        """Return whether this role is enough. Pure."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Person(msgspec.Struct, frozen=True):
    """Somebody who is logged in; the name stands in the audit trail."""

    name: str
    role: Role = Role.VIEW


class ConsoleSession:
    """One login, from one browser."""

    def __init__(self, person: Person, now: float, form_token: str | None = None) -> None:
        self.person = person
        self.form_token = form_token or secrets.token_urlsafe(32)
        """Stands in each form; a request that changes something has to bring it back."""
        self.began = self.seen = now
        self.notice = ""
        """What the last act has done, for the page that follows it."""

    def is_form_of_ours(self, token: str) -> bool:
        """Return whether a form with this token was made for this session."""
        return hmac.compare_digest(self.form_token.encode(), token.encode())

    def take_notice(self) -> str:
        """Return what is to be told, once."""
        told, self.notice = self.notice, ""
        return told


class Access:
    """Keeps links and sessions in memory: whoever starts the console anew has everybody log in again."""

    def __init__(
        self,
        role: Role = Role.DESTROY,
        *,
        link_s: float = 600,
        idle_s: float = 1800,
        longest_s: float = 12 * 3600,
        now: Callable[[], float] = clock.now,
    ) -> None:
        """Give `role` to whoever logs in by a link."""
        self.role = role
        self.cookie = f"projectionist_{secrets.token_hex(4)}"
        """A name of its own: browsers keep one jar for all ports of a host."""
        self._link_s, self._idle_s, self._longest_s, self._now = link_s, idle_s, longest_s, now
        self._links: dict[bytes, float] = {}
        self._sessions: dict[bytes, ConsoleSession] = {}

    def new_link(self) -> str:
        """Return a token that lets somebody in, once and for some minutes."""
        token = secrets.token_urlsafe(32)
        self._links = {one: until for one, until in self._links.items() if until > self._now()}
        while len(self._links) >= MOST_LINKS:
            del self._links[next(iter(self._links))]
        self._links[_hashed(token)] = self._now() + self._link_s
        return token

    def has_link(self, token: str) -> bool:
        """Return whether a link still lets somebody in."""
        return self._links.get(_hashed(token), 0.0) > self._now()

    def log_in(self, token: str, name: str) -> str | None:
        """Use a link up; return the cookie's value of a new session, or None for a link that is used or too old."""
        until = self._links.pop(_hashed(token), 0.0)
        if until <= self._now():
            return None
        return self.open(Person(visible(name.strip())[:MOST_NAME], self.role))

    def open(self, person: Person) -> str:
        """Begin a session; return the cookie's value."""
        self._forget()
        value = secrets.token_urlsafe(32)
        self._sessions[_hashed(value)] = ConsoleSession(person, self._now())
        return value

    def session(self, value: str, *, looks: bool = True) -> ConsoleSession | None:
        """Return the session of a cookie, unless it is over; if somebody `looks`, it goes on from now."""
        found = self._sessions.get(_hashed(value))
        if found is None or self._is_over(found):
            return None
        if looks:
            found.seen = self._now()
        return found

    def log_out(self, value: str) -> None:
        """End a session."""
        self._sessions.pop(_hashed(value), None)

    def _forget(self) -> None:
        self._sessions = {key: one for key, one in self._sessions.items() if not self._is_over(one)}
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def _is_over(self, one: ConsoleSession) -> bool:
        now = self._now()
        return now - one.seen > self._idle_s or now - one.began > self._longest_s


def _hashed(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()

"""Subject patterns: the places of an aggregate in a stream's subjects, read and written by one object."""

from __future__ import annotations

import re
from collections.abc import Iterable

from projectionist.core.errors import DefinitionError
from projectionist.core.nats.subject_tokens import decoded, encoded

AGGREGATE = "{aggregate}"
ID = "{id}"
"""The same token, in the word of `type/id`: kept as AGGREGATE, so that a class may change from one to the other."""
TYPE = "{type}"


class SubjectPattern:
    """One pattern such as `shop.order.{id}`: braces name the tokens of the aggregate's id and type."""

    __slots__ = ("_aggregate", "_match", "_tokens", "_type", "filter", "text")

    def __init__(self, text: str) -> None:
        text = ".".join(AGGREGATE if token == ID else token for token in text.split("."))
        _check(text)
        self.text = text
        self._tokens = text.split(".")
        self._match = re.compile(_expression(self._tokens)).fullmatch
        self._aggregate = self._tokens.index(AGGREGATE) if AGGREGATE in self._tokens else None
        self._type = self._tokens.index(TYPE) if TYPE in self._tokens else None
        self.filter = ".".join("*" if token in (AGGREGATE, TYPE) else token for token in self._tokens)

    @property
    def names_aggregate(self) -> bool:
        """Return True where an aggregate's subject can be built and read, as a gap fetch has to."""
        return self._aggregate is not None

    def match(self, subject: str) -> tuple[str | None, str | None] | None:
        """Return the (type, id) in `subject`, each None where it does not say; None for no match.

        Raises UnicodeDecodeError where percent-coded bytes are no UTF-8.
        """
        found = self._match(subject)
        if found is None:
            return None
        kind = None if self._type is None else decoded(found["type"])
        return kind, None if self._aggregate is None else decoded(found["aggregate"])

    def subject_for(self, aggregate_type: str, aggregate_id: str) -> str | None:
        """Build the subject of one aggregate, wildcards kept; None if the pattern does not name it."""
        if self._aggregate is None or not aggregate_id or (self._type is not None and not aggregate_type):
            return None
        tokens = list(self._tokens)
        tokens[self._aggregate] = encoded(aggregate_id)
        if self._type is not None:
            tokens[self._type] = encoded(aggregate_type)
        return ".".join(tokens)


def _expression(tokens: list[str]) -> str:
    """Write tokens as a regular expression."""
    wild = {
        AGGREGATE: r"(?P<aggregate>[^.]*)",
        TYPE: r"(?P<type>[^.]*)",
        "*": r"[^.]*",
        ">": r"(?s:.*)",
    }
    return r"\.".join(wild.get(token) or re.escape(token) for token in tokens)


class Subjects:
    """All patterns of one consumer. One durable has one filter at most: `filter` covers every pattern."""

    __slots__ = ("filter", "match", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(SubjectPattern(text) for text in patterns)
        if not self.patterns:
            raise DefinitionError("subjects= is empty", remedy='Write subjects="shop.order.{id}"')
        self.match = self.patterns[0].match if len(self.patterns) == 1 else self._first_match
        """As `SubjectPattern.match`, of the first pattern that matches."""
        self.filter = _covering([pattern.filter.split(".") for pattern in self.patterns])

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the patterns as they were written."""
        return tuple(pattern.text for pattern in self.patterns)

    @property
    def names_aggregate(self) -> bool:
        """Return True where every pattern names the aggregate."""
        return all(pattern.names_aggregate for pattern in self.patterns)

    def reads(self, subject: str) -> bool:
        """Return True where a message of this subject is the consumer's."""
        try:
            return self.match(subject) is not None
        except UnicodeDecodeError:  # its pattern matched, and the decoder refuses its bytes
            return True

    def _first_match(self, subject: str) -> tuple[str | None, str | None] | None:
        for pattern in self.patterns:
            found = pattern.match(subject)
            if found is not None:
                return found
        return None

    def subject_for(self, aggregate_type: str, aggregate_id: str) -> str | None:
        """Build the subject of one aggregate, where exactly one pattern can have it; else None."""
        if len(self.patterns) == 1:
            return self.patterns[0].subject_for(aggregate_type, aggregate_id)
        subjects = [pattern.subject_for(aggregate_type, aggregate_id) for pattern in self.patterns]
        return _covering([s.split(".") for s in subjects if s is not None]) if all(subjects) else None


def _covering(filters: list[list[str]]) -> str:
    """Build the narrowest single filter that lets every one of these through."""
    shared: list[str] = []
    for position, tokens in enumerate(zip(*filters, strict=False)):
        if ">" in tokens:
            return ".".join([*shared, ">"])
        last = [len(each) == position + 1 for each in filters]
        if any(last) and not all(last):
            return ".".join([*shared, ">"])
        shared.append(tokens[0] if len(set(tokens)) == 1 else "*")
    return ".".join(shared)


def _check(text: str) -> None:
    tokens = text.split(".")
    for position, word in enumerate(tokens):
        whole = word in (AGGREGATE, TYPE, "*") or (word == ">" and position == len(tokens) - 1)
        if not whole and (not word or re.search(r"[\s{}*>]", word)):
            raise DefinitionError(
                f"subjects={text!r} has the token {word!r}",
                remedy="A token is a literal, *, {id}, {type} or a last >: shop.order.{id}",
            )
    for name in (AGGREGATE, TYPE):
        if tokens.count(name) > 1:
            raise DefinitionError(
                f"subjects={text!r} names {name} twice", remedy="Name it once, * for the rest"
            )

"""What the model of deploys is made of: releases, consumers as the database knows them, and the shipped answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from projectionist.core.settings.settings import Policy
from projectionist.projections import Projection, on
from projectionist.projections.compiled.definition import Definition, definition
from projectionist.projections.event import Event
from projectionist.runner.batch.consumer import Consumer, ControlRow, Superseded
from projectionist.runner.batch.view import ViewRow
from projectionist.runner.consumers.registry import checked_views

RULES = {
    "code compared": "a batch is made only under the code that the control row names",
    "barrier": "who takes newer code up waits until no batch is open",
    "older code refused": "code that was replaced is taken up again on purpose alone",
    "each alone": "a consumer that newer code has taken over ends alone in its process",
    "built first": "what has a higher revision applies nothing before its generation is built",
}


class Release(NamedTuple):
    """The code of one consumer in one version of a program."""

    code: int = 0
    revision: int = 1


class Row(NamedTuple):
    """A consumer in the database."""

    code: int = 0
    revision: int = 1
    ran: tuple[int, ...] = (0,)
    """Every code that was taken up, in this order."""
    applied: int = 0
    made_by: int = 1
    """The revision that has built its generation."""


class Process(NamedTuple):
    """A process of one version of the program; without workers it is gone for good."""

    version: int = 0
    workers: tuple[str, ...] = ("out", "out")
    """By consumer: out, building (its generation), joined, open (a batch) or ended."""


class World(NamedTuple):
    """Database and processes."""

    rows: tuple[Row, ...]
    processes: tuple[Process, ...]
    late: bool = False
    """A batch was committed by code that had been replaced."""
    mixed: bool = False
    """A generation was written by a revision that has not built it."""
    starts: int = 0


class Done(Event, type="thing.done"):
    """The event of the model's consumer."""


class Things(Projection, stream="THINGS", subjects="THINGS.thing.{aggregate}", table="things", key="thing"):
    """The model's consumer."""

    thing: str

    @on(Done)
    def done(self, event: Done) -> None:
        """Apply nothing."""


@cache
def may_join(release: Release, row: tuple[int, int]) -> bool:
    """Return whether the code that ships lets this release join a consumer of this revision and code."""
    definition = _definition(release)
    known = {
        "view_name": definition.name,
        "state": "live",
        "kind": str(definition.kind),
        "stream": definition.stream,
        "subjects": " ".join(definition.subjects.texts),
        "sequence": definition.sequence,
        "baseline": str(definition.baseline),
        "revision": row[1],
        "shape": definition.shape,
        "code": bytes([row[0]]),
    }
    try:
        checked_views(definition, [known])
    except Superseded:
        return False
    return True


@cache
def may_apply(release: Release, row: tuple[int, int]) -> bool:
    """Return whether the code that ships makes a batch of this release under such a control row."""
    consumer = Consumer.of_view(_definition(release), Policy(), 1, "things")
    consumer.members[0].row = ViewRow(number=1)
    view = ViewRow(number=1, code=bytes([row[0]]), revision=row[1])
    return consumer.runs(ControlRow(views=(view,)))


@cache
def _definition(release: Release) -> Definition:
    """Return the consumer's definition as this release has it; its fingerprint is the number of its code."""
    made = replace(definition(Things), revision=release.revision)
    vars(made)["_code"] = (bytes([release.code]), ())
    return made

"""What the relay's model is made of: faults and their bounds, rows, relays, and what a provider knows."""

from __future__ import annotations

from typing import NamedTuple

from projectionist.core.states import IntentState
from projectionist.outbox.relay.state_machine import Transition


class Faults(NamedTuple):
    """How often each thing may go wrong."""

    deaths: int = 0
    silences: int = 0
    """Answers that are lost, of the provider."""
    refusals: int = 0
    absences: int = 0
    """Requests of which no byte leaves."""
    sleeps: int = 0
    """Ticks that pass a relay that is about to send, beyond its lease."""
    failovers: int = 0
    setbacks: int = 0
    """Of PostgreSQL's clock."""
    losses: int = 0
    """Of the end of the provider's stream."""
    others: int = 0
    """Messages that others of the same relay bring into that stream."""


class Row(NamedTuple):
    """An intent in the outbox."""

    state: str = IntentState.READY
    attempt: int = 0
    spent: int = 0
    token: int = -1
    lease: int = 0
    age: int = -1
    """Since the first attempt, by PostgreSQL's clock; -1: there was none."""
    born: int = 0
    doubted: bool = False
    epoch: int = 0
    hint: tuple[int, str] = (0, "")


class Relay(NamedTuple):
    """A process that has one intent in hand, or none."""

    at: str = "idle"
    intent: int = -1
    attempt: int = 0
    spent: int = 0
    age: int = -1
    doubted: bool = False
    silent: bool = False
    """It was leased as unknown."""
    left: int = 0
    """Of its lease, by its own clock."""
    hint: tuple[int, str] = (0, "")
    next: Transition | None = None
    outcome: str = ""
    seen: tuple[int, str] = (0, "")
    """The stream's end, as far as it has heard."""


class World(NamedTuple):
    """Database, relays and provider."""

    rows: tuple[Row, ...]
    relays: tuple[Relay, ...]
    stream: tuple[str, ...] = ()
    """What the provider has executed, in order; others' messages among it."""
    known: tuple[int, ...] = ()
    """By intent: how long ago the provider has last learned its key; OLD: it does not know it."""
    first: tuple[int, ...] = ()
    """The intents in the order in which they were first executed."""
    standby: tuple[Row, ...] | None = None
    epoch: int = 0
    behind: int = 0
    """By how much ages in the tables are too young."""
    faults: Faults = Faults()
    """Those that have happened."""
    named: int = 0

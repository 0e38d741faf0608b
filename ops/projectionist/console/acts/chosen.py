"""What an address chooses: parked events, quarantine, intents; and the same as options of a command. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from projectionist.console.pages import flag
from projectionist.core.digest import sought
from projectionist.core.operator import NotThere
from projectionist.core.states import IntentState
from projectionist.outbox.admin.intent_actions import IntentFilter
from projectionist.runner.admin.parked_queries import ParkedFilter
from projectionist.runner.admin.quarantine_queries import QuarantineFilter

RATE = 200.0
COUNTED = 100_000
"""So many are counted for the page before an act, and acted on by it, the first of them; the command line takes all."""
PARKED = ("consumer", "cause", "type", "aggregate", "error", "source", "id")
ASIDE = ("consumer", "cause", "error")
INTENTS = ("state", "provider", "destination", "intent", "consumer", "error")

Given = Mapping[str, str]


def parked_filter(given: Given) -> ParkedFilter:
    """Return which parked events an address chooses."""
    return ParkedFilter(
        consumer=given.get("consumer") or None,
        cause=given.get("cause") or None,
        type=given.get("type") or None,
        aggregate=given.get("aggregate") or None,
        error=sought(given.get("error") or None),
        ids=[given["id"]] if given.get("id") else None,
        source=given.get("source") or None,
    )


def quarantine_filter(given: Given) -> QuarantineFilter:
    """Return which entries of quarantine an address chooses."""
    return QuarantineFilter(
        consumer=given.get("consumer") or None,
        cause=given.get("cause") or None,
        error=sought(given.get("error") or None),
    )


def intent_filter(given: Given) -> IntentFilter:
    """Return which intents an address chooses; NotThere for a state that there is not."""
    state = given.get("state")
    if state and state not in set(IntentState):
        raise NotThere(f"there is no state {state!r}", remedy=f"States: {', '.join(IntentState)}")
    return IntentFilter(
        states=(IntentState(state),) if state else None,
        provider=given.get("provider") or None,
        destination=sought(given.get("destination") or None),
        intent=given.get("intent") or None,
        consumer=given.get("consumer") or None,
        error=sought(given.get("error") or None),
    )


def of_more(count: int) -> str:
    """Say where as many are counted as may be, and there may be more."""
    return " They are the first: there may be more, and the command takes all." if count >= COUNTED else ""


def need_choice(given: Given, names: tuple[str, ...]) -> None:
    """Raise NotThere where an address chooses nothing: an act on all there is was never shown by a page."""
    if not any(given.get(name) for name in names):
        raise NotThere("the address chooses nothing to act on", remedy="Come here by a button of a page")


def options(given: Given, names: tuple[str, ...]) -> list[str]:
    """Return the same choice as a command takes it."""
    return [word for name in names if name != "id" for word in flag(name, given.get(name) or None)]


def query(given: Given, names: tuple[str, ...]) -> str:
    """Return the same choice as a page's address has it."""
    told = {name: value for name in names if (value := given.get(name))}
    return f"?{urlencode(told)}" if told else ""

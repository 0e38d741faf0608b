"""What of a project needs a person, where to look at it, and what goes on by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec

from projectionist.ops.inspect.project_status import Status, alive, next_steps, shared_step
from projectionist.outbox.admin.status import ProviderStatus
from projectionist.runner.consumers.status import ConsumerStatus
from projectionist.runner.operations.operation import why_abandoned


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody has to do."""

    about: str
    text: str
    remedy: str
    """The command line that helps, or what to do."""
    href: str
    """The page that shows it."""
    label: str
    age_s: float | None = None


class Condition(msgspec.Struct, frozen=True):
    """How something is: a mark (`act`, `wait`, `ok`, `idle`, `busy`) and its word."""

    tone: str
    word: str


def consumer_path(name: str) -> str:
    """Return where the page of a consumer is."""
    return f"/consumer?{urlencode({'name': name})}"


def behind_s(one: ConsumerStatus) -> float | None:
    """Return how long a consumer takes at its pace for what the broker holds for it; None where that cannot be told."""
    if not one.lag:
        return None if one.lag is None else 0.0
    return one.lag / one.rate if one.rate else None


def needs(status: Status) -> list[Need]:
    """Return what waits for somebody: what stops everything first, then by how long it waits."""
    found = [*_of_parts(status), *_of_setbacks(status), *_of_consumers(status), *_of_shared(status)]
    found += [*_of_operations(status), *_of_outbox(status)]
    stopped = len([*_of_parts(status)])
    return found[:stopped] + sorted(found[stopped:], key=lambda one: -(one.age_s or 0.0))


def operation_path(number: int) -> str:
    """Return where the page of an operation is."""
    return f"/operation?{urlencode({'number': number})}"


def _of_operations(status: Status) -> Iterator[Need]:
    for one in status.operations:
        if one.is_abandoned:
            text, remedy = why_abandoned(one)
            about, href = f"Operation {one.number}", operation_path(one.number)
            yield Need(about=about, text=text, remedy=remedy, href=href, label="See it", age_s=one.silent_s)


def _of_outbox(status: Status) -> Iterator[Need]:
    """Yield its troubles: of a provider, of a consumer whose intents are late, or of all."""
    ages = {each.name: each.oldest_s for each in status.outbox.providers}
    for one in status.outbox.troubles:
        yield Need(
            about=f"Outbox, {one.about}" if one.about != "outbox" else "Outbox",
            text=one.text,
            remedy=one.remedy,
            href=f"/outbox?{urlencode({'provider': one.about})}" if one.about in ages else "/outbox",
            label="See the outbox",
            age_s=ages.get(one.about),
        )


def _of_parts(status: Status) -> Iterator[Need]:
    for part in status.parts:
        if part.problem:
            yield Need(about=part.name, text=part.problem, remedy="", href="/doctor", label="Ask the doctor")


def _of_setbacks(status: Status) -> Iterator[Need]:
    for one in status.setbacks:
        if one.needs_somebody:
            yield Need(
                about=one.consumer or "all consumers",
                text=f"{one.about}: {one.reason}",
                remedy=one.remedy,
                href=consumer_path(one.consumer) if one.consumer else "/doctor",
                label="See the consumer" if one.consumer else "Ask the doctor",
            )


def _of_consumers(status: Status) -> Iterator[Need]:
    waited = {one.consumer for one in status.setbacks if not one.needs_somebody}
    for one in status.consumers:
        for step in next_steps(one, waits=one.name in waited):
            waiting = "waiting for new code" in step.text
            yield Need(
                about=one.name,
                text=step.text,
                remedy=step.remedy,
                href=f"/waiting?{urlencode({'consumer': one.name})}" if waiting else consumer_path(one.name),
                label="See what waits" if waiting else "See the consumer",
                age_s=one.oldest_s if waiting else None,
            )


def _of_shared(status: Status) -> Iterator[Need]:
    for one in status.shared:
        step = shared_step(one)
        only = f"?{urlencode({'consumer': one.consumers[0]})}" if len(one.consumers) == 1 else ""
        quarantine = one.what == "quarantine"
        yield Need(
            about=step.about,
            text=step.text,
            remedy=step.remedy,
            href=f"/quarantine{only}" if quarantine else f"/incidents{only}",
            label="See the messages" if quarantine else "See the incidents",
        )


def by_itself(status: Status) -> list[str]:
    """Return what goes on without anybody, in a few words each."""
    told = [
        f"{one.consumer or 'all consumers'} {one.about}" for one in status.setbacks if not one.needs_somebody
    ]
    for one in status.consumers:
        if one.heads.get("failed"):
            told.append(f"{one.name} tries {_counted(one.heads['failed'], 'aggregate')} again")
        if one.heads.get("draining"):
            told.append(f"{one.name} drains {_counted(one.heads['draining'], 'aggregate')}")
    return told


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def condition(one: ConsumerStatus, needed: set[str]) -> Condition:
    """Return how a consumer is; `needed`: those that need somebody."""
    running = len(alive(one))
    word = f"{running} running" if running else "not running"
    if one.paused:
        word = f"paused by {one.pause.who}" if one.pause is not None else "paused"
    elif one.breaker is not None:
        word = f"breaker {one.breaker.state.replace('_', ' ')}"
    if one.name in needed:
        return Condition("act", word)
    goes_on = one.heads.get("failed", 0) or one.heads.get("draining", 0) or one.backlog
    return Condition("wait" if goes_on else "ok", word)


def provider_condition(one: ProviderStatus) -> Condition:
    """Return how a provider is."""
    opened = sum(one.circuits.values())
    word = _counted(one.relays, "relay") if one.relays else "no relay"
    if opened:
        word = f"{_counted(opened, 'circuit')} not closed"
    if one.dead or one.reconcile or one.held or (one.waiting and not one.relays):
        return Condition("act", word)
    return Condition("wait" if opened or one.waiting else "ok", word)


class Counts(msgspec.Struct, frozen=True):
    """The numbers beside the navigation: things to decide, never events."""

    waiting: int = 0
    quarantine: int = 0
    outbox: int = 0
    incidents: int = 0
    operations: int = 0


def counts(status: Status) -> Counts:
    """Count what there is to decide."""
    return Counts(
        waiting=sum(1 for one in status.consumers if one.heads.get("waiting")),
        quarantine=sum(1 for one in status.shared if one.what == "quarantine"),
        outbox=sum(1 for one in status.outbox.providers if provider_condition(one).tone == "act"),
        incidents=sum(one.n for one in status.shared if one.what == "incidents"),
        operations=sum(1 for one in status.operations if one.is_abandoned),
    )

"""Every metric of the product: its name, what kind of number it is, its unit, and which attributes it bears."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from projectionist.core.telemetry.names import (
    CAUSE,
    CONSUMER,
    DESTINATION,
    ERROR_TYPE,
    EVENT_SOURCE,
    EVENT_TYPE,
    FINDING,
    KIND,
    LOOP,
    OPERATION,
    OUTCOME,
    PHASE,
    PROVIDER,
    REASON,
    SERVER,
    STATE,
    SYSTEM,
    THRESHOLD,
    WHAT,
    WORKER,
)


class Instrument(StrEnum):
    """What kind of number it is."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"
    """Observed: what the database, the broker or the process says at the moment it is asked."""


class Metric(msgspec.Struct, frozen=True):
    """One metric. `shared`: it says what servers hold, so each process tells the same: take `max`, never `sum`."""

    name: str
    instrument: Instrument
    unit: str
    text: str
    attributes: tuple[str, ...]
    shared: bool = False


def _counter(name: str, unit: str, text: str, attributes: tuple[str, ...] = ()) -> Metric:
    return Metric(name=name, instrument=Instrument.COUNTER, unit=unit, text=text, attributes=attributes)


def _histogram(name: str, unit: str, text: str, attributes: tuple[str, ...] = ()) -> Metric:
    return Metric(name=name, instrument=Instrument.HISTOGRAM, unit=unit, text=text, attributes=attributes)


def _gauge(
    name: str, unit: str, text: str, attributes: tuple[str, ...] = (), *, shared: bool = True
) -> Metric:
    return Metric(
        name=name, instrument=Instrument.GAUGE, unit=unit, text=text, attributes=attributes, shared=shared
    )


# -- what a runner does ------------------------------------------------------------------------------------------

EVENTS: Final = _counter(
    "projectionist.events",
    "{event}",
    "Outcomes of events, counted after the commit.",
    (CONSUMER, EVENT_TYPE, OUTCOME, EVENT_SOURCE),
)
FAILURES: Final = _counter(
    "projectionist.failures",
    "{event}",
    "Events whose handling failed, by their type and the class of the error.",
    (CONSUMER, EVENT_TYPE, ERROR_TYPE, EVENT_SOURCE),
)
CONSUMED: Final = _counter(
    "messaging.client.consumed.messages",
    "{message}",
    "Messages that were received and settled, repeats among them; without a type where it could not be read.",
    (SYSTEM, OPERATION, DESTINATION, CONSUMER, EVENT_TYPE),
)
PROCESS_DURATION: Final = _histogram(
    "messaging.process.duration",
    "s",
    "How long a batch took, from its barrier to its commit; once for each type that it settled.",
    (SYSTEM, OPERATION, DESTINATION, CONSUMER, EVENT_TYPE),
)
LATENCY: Final = _histogram(
    "projectionist.latency",
    "s",
    "From the arrival of an event to its commit: the oldest and the newest of each type in a batch.",
    (CONSUMER, EVENT_TYPE, EVENT_SOURCE),
)
EVENT_AGE: Final = _histogram(
    "projectionist.event.age",
    "s",
    "From the time that an event bears to its commit: the oldest and the newest of each type in a batch.",
    (CONSUMER, EVENT_TYPE, EVENT_SOURCE),
)
BATCH_SIZE: Final = _histogram("projectionist.batch.size", "{event}", "Events of one batch.", (CONSUMER,))
BATCHES: Final = _counter(
    "projectionist.batches",
    "{batch}",
    "Committed batches, by what ended them: rows, bytes, time or due.",
    (CONSUMER, REASON),
)
COMMIT_DURATION: Final = _histogram(
    "projectionist.commit.duration", "s", "How long the COMMIT of a batch took.", (CONSUMER,)
)
RETRIES: Final = _counter(
    "projectionist.retries",
    "{batch}",
    "Batches that were run again, by why: again, outage, isolated, or waves (once a session and handler: own SQL that"
    " would change a row twice).",
    (CONSUMER, REASON),
)
RECLAIMED: Final = _counter(
    "projectionist.sessions.ended",
    "{session}",
    "Sessions of frozen or dead processes that were ended, since they kept others waiting.",
)

# -- what a relay does -------------------------------------------------------------------------------------------

ATTEMPTS: Final = _counter(
    "projectionist.outbox.attempts",
    "{attempt}",
    "Attempts that have ended, by what came of them.",
    (PROVIDER, OUTCOME),
)
SEND_DURATION: Final = _histogram(
    "messaging.client.operation.duration",
    "s",
    "How long an attempt took.",
    (SYSTEM, OPERATION, PROVIDER, OUTCOME),
)
INTENTS_SETTLED: Final = _counter(
    "projectionist.outbox.settled",
    "{intent}",
    "States that replies have brought intents to.",
    (PROVIDER, STATE),
)

# -- retention ---------------------------------------------------------------------------------------------------

PURGED: Final = _counter("projectionist.purge.rows", "{row}", "Rows that retention has removed.", (WHAT,))
PURGE_FAILURES: Final = _counter(
    "projectionist.purge.failures",
    "{step}",
    "Steps of retention that failed and will be tried again.",
    (WHAT,),
)
BARRIER: Final = _histogram(
    "projectionist.barrier.held",
    "s",
    "How long all batches of a consumer were kept waiting by whoever had it alone: swap, catch up, join, pause, reset.",
    (WHAT,),
)
CHORES_FAILED: Final = _counter(
    "projectionist.chore.failures",
    "{failure}",
    "What is done beside the batches, failed, and will be tried again: heartbeats, re-arming, sweeps, wake-ups.",
    (WHAT,),
)
CONSUMER_FAILED: Final = _counter(
    "projectionist.consumer.failures",
    "{failure}",
    "How often a process could not begin a consumer or go on with it; it tries again, unless newer code is there.",
    (CONSUMER,),
)
WORKER_RESTARTS: Final = _counter(
    "projectionist.worker.restarts",
    "{restart}",
    "How often a worker of `run --workers` has ended without being told to, and was started again.",
    (WORKER,),
)

# -- where consumers stand ---------------------------------------------------------------------------------------

LAG: Final = _gauge(
    "projectionist.consumer.lag",
    "{event}",
    "Messages the broker holds for the consumer; what is known from the last floor, at least 1, where nobody tells.",
    (CONSUMER,),
)
UNACKED: Final = _gauge(
    "projectionist.consumer.unacked", "{event}", "Messages delivered and not acknowledged.", (CONSUMER,)
)
RUNNERS: Final = _gauge(
    "projectionist.consumer.runners", "{process}", "Processes that run the consumer and beat.", (CONSUMER,)
)
PAUSED: Final = _gauge("projectionist.consumer.paused", "{consumer}", "1 while it is paused.", (CONSUMER,))
BREAKER: Final = _gauge(
    "projectionist.consumer.breaker", "{consumer}", "0 closed, 1 half open, 2 open.", (CONSUMER,)
)
REPLAYS: Final = _gauge(
    "projectionist.consumer.replays",
    "{replay}",
    "Replays of the last hour of a consumer that makes effects.",
    (CONSUMER,),
)
OUTCOMES: Final = _gauge(
    "projectionist.inbox.outcomes",
    "{event}",
    "Outcomes of all times, from maintained counters.",
    (CONSUMER, OUTCOME),
)
BACKLOG: Final = _gauge(
    "projectionist.inbox.backlog",
    "{event}",
    "Events safe in the inbox and not applied yet (store first).",
    (CONSUMER,),
)
PENDING_AGE: Final = _gauge(
    "projectionist.inbox.pending.age",
    "s",
    "Age of the oldest event that is parked, whatever for.",
    (CONSUMER,),
)
PARKED: Final = _gauge(
    "projectionist.parked",
    "{event}",
    "Parked events, by cause: gap, failed, blocked (behind one that failed) or stored (its turn comes).",
    (CONSUMER, CAUSE),
)
PARKED_AGE: Final = _gauge(
    "projectionist.parked.age",
    "s",
    "Age of the oldest of the first 5000 heads that are not clear, by their state; without order, of parked events.",
    (CONSUMER, STATE),
)
HEADS: Final = _gauge(
    "projectionist.heads",
    "{aggregate}",
    "Aggregates whose head is not clear; without order, events that are parked.",
    (CONSUMER, STATE),
)
GAPS: Final = _gauge(
    "projectionist.gaps",
    "{aggregate}",
    "Aggregates that wait for missing versions, by what is known of those (open: nothing yet).",
    (CONSUMER, FINDING),
)
QUARANTINE: Final = _gauge(
    "projectionist.quarantine", "{event}", "What stands in quarantine, by reason.", (CONSUMER, REASON)
)
INCIDENTS: Final = _gauge("projectionist.incidents", "{incident}", "Open incidents.", (CONSUMER, KIND))
BEHIND: Final = _gauge(
    "projectionist.consumer.behind",
    "s",
    "Seconds in which the processes that run would settle what waits, as fast as they were seen to; none: not known.",
    (CONSUMER,),
)
WANTED: Final = _gauge(
    "projectionist.consumer.wanted",
    "{process}",
    "Processes that would keep up with what comes and catch up in catch_up_s; none: not known.",
    (CONSUMER,),
)
UNREAD_AGE: Final = _gauge(
    "projectionist.stream.unread.age",
    "s",
    "Age of the oldest message the consumer has not settled.",
    (CONSUMER,),
)
MAX_AGE: Final = _gauge(
    "projectionist.stream.max.age", "s", "How long the stream keeps messages; 0: no such limit.", (CONSUMER,)
)
FILL: Final = _gauge(
    "projectionist.stream.fill",
    "{share}",
    "How full the stream is, by the nearer of its limits of messages and bytes; 0: no such limit.",
    (CONSUMER,),
)
HEADROOM: Final = _gauge(
    "projectionist.stream.headroom",
    "{message}",
    "Settled messages that the stream would drop before the first one that is not.",
    (CONSUMER,),
)
REBUILDING: Final = _gauge(
    "projectionist.rebuild.age", "s", "Age of an open rebuild, by its phase.", (CONSUMER, PHASE)
)
REBUILD_SHARE: Final = _gauge(
    "projectionist.rebuild.share",
    "{share}",
    "Share of the buckets that an open rebuild has finished.",
    (CONSUMER,),
)
REBUILD_DONE: Final = _gauge(
    "projectionist.rebuild.done",
    "{event}",
    "Events (folding: buckets) of what its builder does now that are done.",
    (CONSUMER, PHASE),
)
REBUILD_EXPECTED: Final = _gauge(
    "projectionist.rebuild.expected",
    "{event}",
    "Events (folding: buckets) of what its builder does now, as far as known; 0: not known.",
    (CONSUMER, PHASE),
)
REBUILD_RATE: Final = _gauge(
    "projectionist.rebuild.rate",
    "{event}/s",
    "How many of them it does in a second; 0 where no builder has told for ten seconds.",
    (CONSUMER, PHASE),
)

READING_DONE: Final = _gauge(
    "projectionist.reading.done",
    "{event}",
    "Events (or rows) that a command such as verify or replay is done with, in its present phase; over OTLP alone.",
    (CONSUMER, WHAT, PHASE),
    shared=False,
)
READING_EXPECTED: Final = _gauge(
    "projectionist.reading.expected",
    "{event}",
    "How many it expects in that phase; 0: not known.",
    (CONSUMER, WHAT, PHASE),
    shared=False,
)

# -- where the outbox stands -------------------------------------------------------------------------------------

INTENTS: Final = _gauge(
    "projectionist.outbox.intents",
    "{intent}",
    "Intents that are not settled (staged: no relay has opened them yet, of no provider).",
    (PROVIDER, STATE),
)
INTENTS_AGE: Final = _gauge(
    "projectionist.outbox.intents.age", "s", "Age of the oldest intent in this state.", (PROVIDER, STATE)
)
SCHEDULED: Final = _gauge(
    "projectionist.outbox.scheduled",
    "{intent}",
    "Intents that wait for their time, by what they wait for: its time, or what keeps one that is due.",
    (CONSUMER, REASON),
)
SCHEDULED_LATE: Final = _gauge(
    "projectionist.outbox.scheduled.late",
    "s",
    "Since when the first of those has been due that something keeps.",
    (CONSUMER, REASON),
)
RELAYS: Final = _gauge(
    "projectionist.outbox.relays",
    "{process}",
    "Relays that beat, by the providers they send for; 0: none at all.",
    (PROVIDER,),
)
CIRCUITS: Final = _gauge(
    "projectionist.outbox.circuits",
    "{destination}",
    "Destinations whose circuit is not closed, or that are held.",
    (PROVIDER, STATE),
)

# -- the process -------------------------------------------------------------------------------------------------

LOOP_AGE: Final = _gauge(
    "projectionist.loop.age",
    "s",
    "Time since a loop of this process last came by.",
    (LOOP, CONSUMER),
    shared=False,
)
REACHABLE: Final = _gauge(
    "projectionist.server.reachable",
    "{server}",
    "1 if the server answered this process.",
    (SERVER,),
    shared=False,
)
POLICY: Final = _gauge(
    "projectionist.policy.threshold",
    "{threshold}",
    "What the settings of a consumer call too much: [consumer_defaults.alerts].",
    (CONSUMER, THRESHOLD),
)

METRICS: Final = {value.name: value for value in tuple(globals().values()) if isinstance(value, Metric)}

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
SIZES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)


def scraped(metric: Metric) -> str:
    """Return the metric's name in a Prometheus scrape, without the suffixes of a histogram's series."""
    base = metric.name.replace(".", "_")
    if metric.unit == "s":
        base += "_seconds"
    elif metric.unit.endswith("/s"):
        base += "_per_second"
    return base + ("_total" if metric.instrument is Instrument.COUNTER else "")

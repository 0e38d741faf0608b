"""Who takes part in `bench live`: the product, those it is compared with, and the product's variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.settings.settings import Nats

if TYPE_CHECKING:
    from projectionist.bench.load import Load

PRODUCT = ("-m", "projectionist.bench.product", "plain")
PEER_SHARE, PEER_LEAST = 20, 2000
"""A slow peer gets one event of so many, and at least so many: it would need minutes for all."""


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes part."""

    title: str
    arguments: tuple[str, ...]
    share: int = 1
    past: int = 0
    """How many settled events its inbox holds before the first."""
    keeps: bool = True
    """Whether it writes the inbox."""
    purges: bool = False
    """Whether it removes some of the past meanwhile."""
    later: bool = False
    """Whether it acks before it has settled."""
    environment: Mapping[str, str] = {}
    code: str = ""
    """Where its modules are found, as PYTHONPATH has it; empty: where ours are."""
    load: Callable[[Load], Load] = lambda load: load
    """What it gets instead of the usual load."""

    @property
    def app(self) -> str:
        """Return whose tables it needs."""
        return self.arguments[-1] if self.arguments[:-1] == PRODUCT[:-1] else "plain"

    @property
    def found_in(self) -> dict[str, str]:
        """Return the environment in which its modules are found."""
        return {"PYTHONPATH": self.code} if self.code else {}

    def messages(self, load: Load) -> int:
        """Return how many messages of the load it gets."""
        least = max(PEER_LEAST, load.messages // self.share)
        return load.messages if self.share == 1 else min(load.messages, least)


_PURGING = {
    "PROJECTIONIST_RETENTION__PURGE_INTERVAL_S": "1",
    "PROJECTIONIST_CONSUMER_DEFAULTS__RETENTION_S": "864000",
}
"""Retention begins after a second, and has more to remove than it can during the run."""


def contenders(nats: Nats, past: int) -> tuple[dict[str, Contender], dict[str, str]]:
    """Return those that can take part, and why others cannot."""
    part = {
        "product": Contender(title="product, every guarantee on, no tracing", arguments=PRODUCT),
        "twin": Contender(title="live twin: the same statements, no guards", arguments=_module("twin")),
        "drain": Contender(
            title="bare acked drain: transport alone", arguments=_module("drain"), keeps=False
        ),
        "one": Contender(title="one transaction an event", arguments=_module("one", "1"), share=PEER_SHARE),
        "one_16": Contender(
            title="one transaction an event, 16 at once", arguments=_module("one", "16"), share=PEER_SHARE
        ),
        "faststream": Contender(
            title="FastStream, one transaction an event", arguments=_module("peer"), share=PEER_SHARE
        ),
    }
    if past:
        part["product_inbox_rows"] = Contender(
            title="product on an inbox that is full", arguments=PRODUCT, past=past
        )
        part["product_purging"] = Contender(
            title="product on such an inbox, retention at work",
            arguments=PRODUCT,
            past=past,
            purges=True,
            environment=_PURGING,
        )
    why = ""
    if find_spec("faststream") is None:
        why = "it is not installed: pip install 'projectionist[bench]'"
    elif not nats.takes_url_alone:
        why = "it is connected by a URL alone, and this broker asks for more"
    if not why:
        return part, {}
    del part["faststream"]
    return part, {"faststream": why}


def variants(collector: str = "http://127.0.0.1:9") -> dict[str, Contender]:
    """Return the product under what else users ask of it; `plain` is the product as it is, on as many events.

    Traces and metrics go to `collector`; by default there is none.
    """
    told = _telling(collector)
    stored = {
        "PROJECTIONIST_CONSUMER_DEFAULTS__ACK": "after-store",
        "PROJECTIONIST_TELEMETRY__ALLOW_UNMONITORED": "true",
    }
    return {
        "plain": Contender(title="one projection", arguments=PRODUCT),
        "two": Contender(title="two projections of the same events", arguments=_product("two")),
        "views_two": Contender(title="a set of two views", arguments=_product("views_two")),
        "views_four": Contender(title="a set of four views", arguments=_product("views_four")),
        "views_neighbour": Contender(
            title="a set of two views, one of which looks up another order's row of the other",
            arguments=_product("views_neighbour"),
        ),
        "lines": Contender(title="five rows an event", arguments=_product("lines")),
        "looking_up": Contender(title="one row looked up an event", arguments=_product("looking_up")),
        "sql": Contender(title="a SqlProjection, one statement an event", arguments=_product("sql")),
        "sql_runs": Contender(title="a SqlProjection, one statement a run", arguments=_product("sql_runs")),
        "intents": Contender(title="one intent an event", arguments=_product("intents")),
        "after_store": Contender(
            title="ack = after-store", arguments=PRODUCT, environment=stored, later=True
        ),
        "duplicates": Contender(
            title="every tenth event twice", arguments=PRODUCT, load=_with(duplicates=0.1)
        ),
        "gaps": Contender(
            title="every hundredth event late", arguments=PRODUCT, load=_with(gaps=0.01), later=True
        ),
        "random_ids": Contender(title="ids in no order", arguments=PRODUCT, load=_with(random_ids=True)),
        "metrics": Contender(title="metrics exported", arguments=PRODUCT, environment=told),
        "traced": Contender(
            title="metrics and traces exported, every event sampled",
            arguments=PRODUCT,
            environment=told,
            load=_with(traced=1),
        ),
        "payload_4k": Contender(title="bodies of 4 KB", arguments=PRODUCT, load=_with(payload=4096)),
    }


def tracing(collector: str) -> dict[str, Contender]:
    """Return the product on events that bear a trace context: where nobody listens, and where `collector` does."""
    told = _telling(collector)
    return {
        "contexts": Contender(
            title="events bear a trace context, nobody listens", arguments=PRODUCT, load=_with(traced=0)
        ),
        "unsampled": Contender(
            title="metrics and traces exported, none sampled",
            arguments=PRODUCT,
            environment=told,
            load=_with(traced=0),
        ),
        "sampled": Contender(
            title="the same, one event of a hundred sampled",
            arguments=PRODUCT,
            environment=told,
            load=_with(traced=0.01),
        ),
    }


def _telling(collector: str) -> dict[str, str]:
    return {"PROJECTIONIST_TELEMETRY__ENDPOINT": collector}


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return ("-m", f"projectionist.bench.{name}", *arguments)


def _product(app: str) -> tuple[str, ...]:
    return (*PRODUCT[:-1], app)


def _with(**fields: float) -> Callable[[Load], Load]:
    return lambda load: msgspec.structs.replace(load, **fields)

"""The shop as an app for real processes: `projectionist run tests.support.shop_app:app`. The test says the stream."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tests.support.consumer_harness import ConsumerHarness
from tests.support.keyed_lines import keyed
from tests.support.servers import Stream
from tests.support.set_lookups import looking_set
from tests.support.several_rows import several
from tests.support.shop import shop
from tests.support.view_sets import view_set

from projectionist.runner import App

APP = "tests.support.shop_app:app"
KEYED_APP = "tests.support.shop_app:keyed_app"
"""Consumers whose keys have several columns."""
SEVERAL_APP = "tests.support.shop_app:several_app"
"""Consumers whose events have several rows."""
SET_APP = "tests.support.shop_app:set_app"
"""A set of views."""
LOOKING_APP = "tests.support.shop_app:looking_app"
"""A set of views that look each other up."""


def environment(live: ConsumerHarness, *, poison: str = "", **settings: str) -> Mapping[str, str]:
    """Return what a process needs to run the app on the harness's servers; `settings` go by their names in it."""
    return {
        "LAB_STREAM": live.stream.name,
        "LAB_POISON": poison,
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
        "PROJECTIONIST_CONSUMER_DEFAULTS__ACK_WAIT_S": "1",
        "PROJECTIONIST_CONSUMER_DEFAULTS__LATE_S": "0",
        **{f"PROJECTIONIST_{name.upper()}": value for name, value in settings.items()},
    }


if "LAB_STREAM" in os.environ:
    _shop = shop(Stream(os.environ["LAB_STREAM"]))
    _shop.trouble.poison.update(filter(None, os.environ["LAB_POISON"].split(",")))
    _keyed = keyed(Stream(os.environ["LAB_STREAM"]))
    keyed_app = App(projections=[_keyed.Lines, _keyed.Stock])
    _several = several(Stream(os.environ["LAB_STREAM"]))
    several_app = App(projections=[_several.Lines, _several.Stock])
    app = App(projections=[_shop.Orders, _shop.Spend])
    looking_app = App(projections=[looking_set(Stream(os.environ["LAB_STREAM"])).Shop])
    set_app = App(projections=[view_set(Stream(os.environ["LAB_STREAM"])).Shop])

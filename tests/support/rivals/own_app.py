"""Projectionist's contender: the shop of the tests, in the release that its processes are told."""

from __future__ import annotations

import os

from tests.support.rivals.ground import VARIABLE, told
from tests.support.rivals.load import FINE, ODD
from tests.support.servers import Stream
from tests.support.shop import mended

from projectionist.outbox.providers import Http
from projectionist.runner import App

if VARIABLE in os.environ:
    digests = frozenset({FINE, ODD} if told().mended else {FINE})
    app = App(projections=[mended(Stream(told().stream), digests=digests)], providers={"email": Http})

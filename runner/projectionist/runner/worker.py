"""One consumer in one process, from its start to its end: opens, serves, waits out what ends by itself."""

from __future__ import annotations

import logging
import statistics
from typing import TYPE_CHECKING

import anyio

from projectionist.core.db import connect
from projectionist.core.signals import announce
from projectionist.core.sql import Statements
from projectionist.runner.consumer import Paused
from projectionist.runner.jetstream import BrokerError, StreamMissing
from projectionist.runner.model import model_for
from projectionist.runner.pipeline import Pipeline
from projectionist.runner.reading import Reader
from projectionist.runner.registry import Registry
from projectionist.runner.session import Session
from projectionist.runner.settle import Settler
from projectionist.runner.source import JetStreamSource

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings import Settings
    from projectionist.projections.definition import Definition
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.jetstream import Stream

"""From a JetStream delivery to committed rows: source, reading, the batch transaction, verbs, processes."""

from __future__ import annotations

from projectionist.runner.app import App

__all__ = ["App"]

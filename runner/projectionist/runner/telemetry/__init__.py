"""Metrics and log lines of batches, and the gauges of the state in the database.

It may import batch, consumers and what lies below. Read `batch_metrics` first, then `state_metrics`.
"""

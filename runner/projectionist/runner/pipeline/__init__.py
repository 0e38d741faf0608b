"""Fetch, settle, ack: one loop a consumer, with due work, retries, bisection and the crash guard.

It may import gaps, failures, batch and what lies below. Read `loop` first, then `batch_retry`.
"""

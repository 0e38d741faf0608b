"""Connections to NATS, the fast client and its parser, and subjects as text.

It may import settings and the rest of core; it knows no stream, no consumer and no event. Read `connections` first,
then `fast_client`.
"""

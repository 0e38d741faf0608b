"""Registrations of consumers: control row, intent slots, status.

It may import batch and what lies below; it does not run anything. Read `registry` first.
"""

"""Checks of servers, settings and consumers, and what mends what they find.

It may import runner, outbox and core. Read `examine` first.
"""

"""Decides what may go and when, and removes it: rules, the purge, archives.

It may import batch, consumers and what lies below. Read `rules` first, then `purge`.
"""

"""Serves operators: parked events, quarantine, incidents, pause, reset, the history of an event.

It may import every room below but process; only the command line imports it. Read `parked_actions` first, then
`parked_queries`.
"""

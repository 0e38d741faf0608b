"""Holds what all commands share: arguments, output, the servers and the database they work on.

It may import runner, outbox, embedded and core; it knows no command. Read `command_context` first.
"""

"""One process: its consumers, heartbeats, supervision, its shared connections.

It may import every room below; only app and the command line import it. Read `run` first, then `consumer_worker`.
"""

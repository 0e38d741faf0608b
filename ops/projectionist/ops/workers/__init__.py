"""`run --workers`: several runners of one machine as one process to whoever starts, stops and asks it.

It may import core and what `cli` says. Read `worker_supervisor` first; `worker_end` is what it decides by.
"""

"""Read your own writes: wait until an event is applied.

It may import every room below; it writes nothing. Read `waiter` first, then `outcome` and `stored_events`.
"""

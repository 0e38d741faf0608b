"""What every room needs of PostgreSQL: availability, the barrier, dead sessions, chores, statements by name.

It may import core and jetstream's errors; it knows no event. Read `availability` first, then `barrier`.
"""

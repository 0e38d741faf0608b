"""Connections and sessions of PostgreSQL, statements, leases, classes of errors, and which database this is.

It may import settings and the rest of core; it knows none of our tables but leases and the owner. Read `connections`
first, then `statements`.
"""

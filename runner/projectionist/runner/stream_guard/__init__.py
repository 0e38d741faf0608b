"""Checks that stream, durable and database are still those we knew, and lets an operator decide if not.

It may import batch, consumers and what lies below. Read `guard` first, then `verdict`.
"""

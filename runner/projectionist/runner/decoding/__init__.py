"""The bytes of a message to a Delivery, or the reason why not.

It may import core and jetstream's reply subjects; it asks no server anything. Read `decoder` first, then `delivery`.
"""

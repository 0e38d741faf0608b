"""What many failures mean: the consumer's breaker, retries on new code, quarantine that is read again.

It may import batch, consumers and what lies below. Read `consumer_breaker` first, then `failure_window`.
"""

"""The transaction: claim, judge, fold and write one batch of one consumer.

It may import jetstream, decoding and database; every later room builds on it. Read `planning` first, then `outcomes`,
then `transaction`.
"""

"""Lets people in: who they are, what they may, for how long; and refuses requests that no page of ours has made.

It may import core, and nothing of the console. Read `sessions` first, then `request_guard`.
"""

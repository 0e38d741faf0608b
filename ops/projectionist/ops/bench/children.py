"""Starts contenders, each a process, and measures them from outside, all in the same way."""

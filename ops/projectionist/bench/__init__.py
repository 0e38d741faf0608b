"""The benchmarks: contenders, loads, and the pages they write.

It may import everything; nothing but the command `bench` imports it. Read `suite` first, then `live`.
"""

"""Benchmarks: the product beside a twin, a bare drain and a peer, each in a process of its own, on the same data."""

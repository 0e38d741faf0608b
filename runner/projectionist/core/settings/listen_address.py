"""Where a process listens, as settings write it. Pure."""

from __future__ import annotations


def address(listen: str) -> tuple[str, int]:
    """Return host and port of `host:port`; without a host, this machine alone. ValueError for anything else."""
    host, _, port = listen.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"listen {listen!r} is not host:port, like 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)

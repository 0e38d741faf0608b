"""Several scrapes in Prometheus's text format as one, in which each worker's series bear its number. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from projectionist.core.telemetry import names

LABEL = names.WORKER.replace(".", "_")


def merged(scrapes: Mapping[str, str]) -> str:
    """Return one scrape of these, by worker; under the empty name stands what bears no number.

    Each family is told once, with the series of all behind it, as the format demands.
    """
    heads: dict[str, list[str]] = {}
    series: dict[str, list[str]] = {}
    for worker, text in scrapes.items():
        family = ""
        told: dict[str, list[str]] = {}
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                told.setdefault(family, []).append(line)
            elif line and not line.startswith("#"):
                series.setdefault(family, []).append(_numbered(line, worker))
        for name, lines in told.items():
            heads.setdefault(name, lines)
    lines = [line for name, head in heads.items() for line in (*head, *series.get(name, ()))]
    return "".join(f"{line}\n" for line in lines)


def _numbered(line: str, worker: str) -> str:
    """Return a series with the label of its worker, unless it has one of its own."""
    name, _, rest = line.partition(" ")
    if not worker:
        return line
    if "{" not in name:
        return f'{name}{{{LABEL}="{worker}"}} {rest}'
    name, _, rest = line.partition("{")
    return f'{name}{{{LABEL}="{worker}",{rest}'

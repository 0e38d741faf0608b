"""Which of the alerts fire on what real processes were scraped for, by Prometheus's own reckoning."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from tests.support.debian import program
from tests.support.process import ROOT

RULES = ROOT / "ops" / "alerts" / "projectionist.yml"


class State(msgspec.Struct, frozen=True):
    """What Prometheus got from each process that it scrapes, the same for some minutes; None: no answer."""

    minutes: int
    scrapes: Mapping[str, str | None]


def firing(folder: Path, *states: State) -> set[str]:
    """The alerts that fire at the end of these states, one after the other."""
    # Nothing is expected, so promtool tells what there is.
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{sum(state.minutes for state in states) - 1}m",
    }
    test = {"interval": "1m", "input_series": list(_series(states)), "promql_expr_test": [asked]}
    path = folder / "states.yml"  # JSON is YAML
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    command = [str(program("promtool")), "test", "rules", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode == 0 or "got:" in told, told
    return set(re.findall(r'alertname=\\?"Projectionist(\w+)', told))


def _series(states: Sequence[State]) -> Iterator[dict[str, str]]:
    values: dict[str, list[str]] = {}
    at = 0
    for state in states:
        for instance, text in state.scrapes.items():
            for name, value in _samples(instance, text):
                known = values.setdefault(name, [])
                known += ["stale"] * (at - len(known)) + [value] * state.minutes
        at += state.minutes
    for name, told in values.items():
        yield {"series": name, "values": " ".join([*told, *["stale"] * (at - len(told))])}


def _samples(instance: str, text: str | None) -> list[tuple[str, str]]:
    where = f'job="projectionist",instance="{instance}"'
    found = [(f"up{{{where}}}", "0" if text is None else "1")]
    for name, labels, value in re.findall(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$", text or "", re.MULTILINE):
        found.append((f"{name}{{{','.join(filter(None, (labels, where)))}}}", value))
    return found

"""A real Chromium, driven by Playwright: that of the machine, or the one that `make browser` unpacks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect
from tests.support.waiting import HANG_S

_UNPACKED = Path(sys.prefix) / "browser"
_SHELL = _UNPACKED / "usr/lib/chromium/chromium-headless-shell"

HANG_MS = HANG_S * 1000
"""How long a browser is waited for, in whatever it does: Playwright's own five and thirty seconds tell of a machine."""

expect.set_options(timeout=HANG_MS)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start one that nobody sees; where it cannot be had the test is left out, as with all that comes from Debian."""
    found = str(_SHELL) if _SHELL.exists() else shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is not here: `make browser` unpacks it where Debian's packages can be had")
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(
            executable_path=found, env=_environment(), timeout=HANG_MS
        ) as browser,
    ):
        yield browser


def _environment() -> dict[str, str | float | bool]:
    """Where the unpacked one finds libraries and fonts that the machine may lack."""
    libraries = [str(path) for path in _UNPACKED.glob("**/*-linux-gnu") if path.is_dir()]
    libraries += [str(path) for path in _UNPACKED.glob("usr/lib/*-linux-gnu/pulseaudio")]
    made: dict[str, str | float | bool] = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}
    fonts = _UNPACKED / "etc/fonts/fonts.conf"
    if fonts.exists():
        made |= {"FONTCONFIG_FILE": str(fonts), "XDG_DATA_HOME": str(_UNPACKED / "usr/share")}
    return made

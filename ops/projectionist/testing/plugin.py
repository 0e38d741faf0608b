"""The fixtures that pytest has where Projectionist is installed. They cost nothing until a test asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from projectionist.runner.app import App
    from projectionist.testing.live import Live
    from projectionist.testing.servers import SessionServers


@pytest.fixture(scope="session")
def projectionist_servers() -> Iterator[SessionServers]:
    """Return a PostgreSQL and a NATS server for the session; each worker of xdist has its own."""
    from projectionist.testing.servers import SessionServers  # noqa: PLC0415

    with SessionServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def projectionist_app() -> App:
    """Return the app that the settings name. Define a fixture of this name for another one."""
    from projectionist.core.errors import SettingsError  # noqa: PLC0415
    from projectionist.core.settings.settings import settings  # noqa: PLC0415
    from projectionist.ops.cli.app_arguments import load  # noqa: PLC0415
    from projectionist.runner.app import App  # noqa: PLC0415

    name = settings().app
    if name is None:
        raise SettingsError(
            "no app to test: `app` of projectionist.toml is not set",
            remedy="Set it to module:name, or define a fixture `projectionist_app` that returns your app",
        )
    return load(name, App)


@pytest.fixture
def projectionist(projectionist_servers: SessionServers, projectionist_app: App) -> Iterator[Live]:
    """Run the app on real servers, in a database and on streams of this test alone."""
    from projectionist.testing.live import live  # noqa: PLC0415

    with live(projectionist_servers, projectionist_app) as made:
        yield made

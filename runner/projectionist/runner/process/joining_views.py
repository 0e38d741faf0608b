"""Has views join their set beside the batches of the others; whatever becomes of it, these go on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from projectionist.core.postgres.error_class import is_transient
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.testpoints import announce
from projectionist.runner.history.progress import Logged
from projectionist.runner.rebuild.build_lease import AlreadyBuilding
from projectionist.runner.rebuild.rebuild import LateBuild, Options, Rebuild

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.process.database_access import DatabaseAccess

log = logging.getLogger("projectionist.runner")

TRIES = RetryPolicy(initial_s=1.0, maximum_s=600.0)
"""History that handlers cannot digest is read again each time: until somebody mends them, that is seldom enough."""


class JoiningViews:
    """Views of one set that wait to be built by this process, or another."""

    def __init__(
        self,
        definition: ConsumerDefinition,
        views: Sequence[Definition],
        settings: Settings,
        client: Client,
        access: DatabaseAccess,
    ) -> None:
        self._definition, self._views = definition, views
        self._settings, self._client, self._access = settings, client, access
        self._name = ", ".join(view.full_name for view in views)
        self._told = definition.name, self._name

    async def run(self) -> None:
        """Build them, and return when they have joined; what stands in the way is told, and tried ever more rarely."""
        try:
            tries = 0
            while not await self._has_joined(tries):
                tries += 1
                announce("join.waits")
                await anyio.sleep(interval(TRIES, tries))
        finally:
            self._access.not_joined.pop(self._told, None)

    async def _has_joined(self, tries: int) -> bool:
        try:
            await self._build()
        except LateBuild:
            return True
        except AlreadyBuilding as taken:
            if not tries:
                log.info("%s: %s", self._name, taken)
            return False
        except Exception as error:  # noqa: BLE001  the set does without them, as before
            if not is_transient(error):
                self._tell(error)
            return False
        return True

    def _tell(self, error: Exception) -> None:
        before = self._access.not_joined.get(self._told)
        self._access.not_joined[self._told] = error
        if str(before) != str(error):
            log.warning("%s does not join yet, and is tried again: %s", self._name, error)
        announce("join.failed")

    async def _build(self) -> None:
        if (refused := await self._access.refused_to_build(self._views)) is not None:
            raise refused
        given = (self._definition, self._settings, self._client, Logged(self._name))
        done = await Rebuild(*given, Options(waiting_only=True), views=self._views).run()
        silent = ", ".join(f"{n} x {slot}" for slot, n in done.silent.items())
        history = f"; intents of history are not made: {silent}" if silent else ""
        log.info("%s: joined, and is written by every batch from now on%s", self._name, history)

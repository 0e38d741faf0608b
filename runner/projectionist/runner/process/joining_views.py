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

    async def run(self) -> None:
        """Build them, and return when they have joined; what stands in the way is told, and tried ever more rarely."""
        try:
            tries = 0
            while not await self._have_joined(tries):
                tries += 1
                announce("join.waits")
                await anyio.sleep(interval(TRIES, tries))
        finally:
            for some in (self._views, *((one,) for one in self._views)):
                self._access.not_joined.pop(self._told(some), None)

    async def _have_joined(self, tries: int) -> bool:
        """Build them from one reading, or each by itself where that fails: one that history breaks stops no other."""
        error = await self._failure(self._views)
        if error is None:
            return True
        if len(self._views) == 1 or isinstance(error, AlreadyBuilding) or is_transient(error):
            self._tell(self._views, error, tries)
            return False
        failures = [(one, await self._failure([one])) for one in self._views]
        for one, why in failures:
            self._tell([one], why, tries)
        return all(why is None for _, why in failures)

    async def _failure(self, views: Sequence[Definition]) -> Exception | None:
        """Build these views; return why they have not joined, None where they have or are not to any more."""
        try:
            await self._build(views)
        except LateBuild:
            return None
        except Exception as error:  # noqa: BLE001  the set does without them, as before
            return error
        return None

    def _tell(self, views: Sequence[Definition], error: Exception | None, tries: int) -> None:
        told, name = self._told(views), _names(views)
        if error is None:
            self._access.not_joined.pop(told, None)
        elif isinstance(error, AlreadyBuilding):
            if not tries:
                log.info("%s: %s", name, error)
        elif not is_transient(error):
            before = self._access.not_joined.get(told)
            self._access.not_joined[told] = error
            if str(before) != str(error):
                log.warning("%s does not join yet, and is tried again: %s", name, error)
            announce("join.failed")

    def _told(self, views: Sequence[Definition]) -> tuple[str, str]:
        return self._definition.name, _names(views)

    async def _build(self, views: Sequence[Definition]) -> None:
        if (refused := await self._access.refused_to_build(views)) is not None:
            raise refused
        name = _names(views)
        given = (self._definition, self._settings, self._client, Logged(name))
        done = await Rebuild(*given, Options(waiting_only=True), views=views).run()
        silent = ", ".join(f"{n} x {slot}" for slot, n in done.silent.items())
        history = f"; intents of history are not made: {silent}" if silent else ""
        log.info("%s: joined, and is written by every batch from now on%s", name, history)


def _names(views: Sequence[Definition]) -> str:
    return ", ".join(view.full_name for view in views)

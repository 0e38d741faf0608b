"""Has views join their set beside the batches of the others; whatever becomes of it, these go on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from projectionist.core import clock
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.testpoints import announce
from projectionist.runner.database.chores import Chore
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
    """The views of one set that wait to be built, by this process or another, now or once somebody attaches them."""

    def __init__(
        self, definition: ConsumerDefinition, settings: Settings, client: Client, access: DatabaseAccess
    ) -> None:
        self._definition = definition
        self._settings, self._client, self._access = settings, client, access
        self._looks = Chore(
            "looking for views that join", self._look, consumer=definition.name, book=access.book
        )
        self._views: list[Definition] = []
        self._tried: list[Definition] = []
        """Those that the tries so far were about."""
        self._tries, self._not_before = 0, 0.0

    async def run(self) -> None:
        """Build whichever wait, until cancelled; what stands in the way is told, and tried ever more rarely."""
        try:
            while True:
                await self._looks.step()
                announce("join.looked")
                if self._views != self._tried:
                    self._forget()
                if self._views and clock.now() >= self._not_before:
                    await self._try()
                left_s = max(self._not_before - clock.now(), 0.0) or self._settings.run.heartbeat_s
                await anyio.sleep(min(left_s, self._settings.run.heartbeat_s))
        finally:
            self._forget()
            self._looks.over()

    async def _look(self) -> None:
        self._views = await self._access.joining(self._definition)

    async def _try(self) -> None:
        self._tried = self._views
        if await self._have_joined():
            self._forget()
            return
        self._tries += 1
        self._not_before = clock.now() + interval(TRIES, self._tries)
        announce("join.waits")

    async def _have_joined(self) -> bool:
        """Build them from one reading, or each by itself where that fails: one that history breaks stops no other."""
        error = await self._failure(self._views)
        if error is None:
            return True
        if len(self._views) == 1 or isinstance(error, AlreadyBuilding) or is_transient(error):
            self._tell(self._views, error)
            return False
        failures = [(one, await self._failure([one])) for one in self._views]
        for one, why in failures:
            self._tell([one], why)
        return all(why is None for _, why in failures)

    def _forget(self) -> None:
        """Begin anew, with other views or none."""
        for some in (self._tried, *([one] for one in self._tried)):
            self._access.not_joined.pop(self._told(some), None)
        self._tried, self._tries, self._not_before = [], 0, 0.0

    async def _failure(self, views: Sequence[Definition]) -> Exception | None:
        """Build these views; return why they have not joined, None where they have or are not to any more."""
        try:
            await self._build(views)
        except LateBuild:
            return None
        except Exception as error:  # noqa: BLE001  the set does without them, as before
            return error
        return None

    def _tell(self, views: Sequence[Definition], error: Exception | None) -> None:
        told, name = self._told(views), _names(views)
        if error is None:
            self._access.not_joined.pop(told, None)
        elif isinstance(error, AlreadyBuilding):
            if not self._tries:
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

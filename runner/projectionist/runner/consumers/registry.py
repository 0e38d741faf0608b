"""How code and database agree on a consumer before its first batch: registration, code, effects mark, stream."""

from __future__ import annotations

import logging
import os
import socket
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.runner.batch.consumer import Consumer, ControlRow, Superseded
from projectionist.runner.batch.view import View, ViewRow
from projectionist.runner.consumers.header_mapping import written
from projectionist.runner.consumers.intent_slots import frozen
from projectionist.runner.database.barrier import alone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.jetstream.api import StreamInfo

log = logging.getLogger("projectionist.runner")


def place() -> bytes:
    """Return what numbers of processes are worth something within: this boot, and this container's namespace.

    Where the system does not say, no other process is from the same place.
    """
    try:
        boot, space = (
            Path("/proc/sys/kernel/random/boot_id").read_bytes(),
            Path("/proc/self/ns/pid").readlink(),
        )
    except OSError:
        return os.urandom(8)
    return blake2b(boot + bytes(space), digest_size=8).digest()


PLACE = place()
INSTANCE = UUID(bytes=PLACE + os.urandom(8))
"""This process, among others on other machines with the same name and number; it begins with its place."""


class NotRegistered(ProjectionistError):
    """The database does not know this consumer, or knows it in another shape. `migrate` or a rebuild mends it."""


class Registry:
    """Registrations of consumers, over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)

    async def join(
        self,
        definition: ConsumerDefinition,
        policy: Policy,
        stream: StreamInfo,
        *,
        early: bool = False,
        allow_older_code: bool = False,
    ) -> Consumer:
        """Bring the registration up to this code, once for all processes that start with it, and join it.

        Raises NotRegistered, or Superseded where this code was replaced by a newer one before
        (`allow_older_code` takes it up again). `early`: this process waited for the stream before it existed, so that
        no event of it is older than the first run.
        """
        number: int = (await self.checked(definition))[0]["number"]
        silent = definition.effects == "now" and not early
        effects_from = stream.state.last_seq + 1 if silent else 0
        views = await self._bring_up(
            definition, number, effects_from=effects_from, allow_older_code=allow_older_code
        )
        runner = await self._insert_runner(definition, policy, number)
        control = await self._connection.fetch(self._sql["select_control_row"], number)
        return Consumer(definition, policy, number, runner, views, ControlRow.of(control))

    async def _bring_up(
        self,
        definition: ConsumerDefinition,
        number: int,
        *,
        effects_from: int,
        allow_older_code: bool,
    ) -> list[View]:
        """Take this code up beside no open batch; return its views, each with the names under which renamed slots go
        on."""
        fresh, views = [], []
        async with alone(self._connection, self._schema, number, "join"):
            rows = await self.checked(definition)  # again: whoever held the barrier may have changed it
            for view, row in zip(definition.views, rows, strict=True):
                if row["state"] == "live" and row["code"] != view.code:
                    await self._adopt(view, row, allow_older_code=allow_older_code)
                    fresh.append(view.full_name)
                slots = await self._slots(view, row["view"])
                views.append(View(view, row["key_name"], slots, ViewRow(number=row["view"])))
            await self._connection.execute(self._sql["set_effects_start"], number, effects_from)
        for name in fresh:
            log.info("%s: new code taken up; rows written by older code stay until a rebuild", name)
        return views

    async def _insert_runner(self, definition: ConsumerDefinition, policy: Policy, number: int) -> int:
        host, pid = socket.gethostname(), os.getpid()
        headers = written(policy.headers)
        runner: int = await self._connection.fetchval(
            self._sql["insert_runner"], number, INSTANCE, host, pid, definition.code, headers
        )
        return runner

    async def checked(self, definition: ConsumerDefinition) -> list[Record]:
        """Return the registration of each view, if it is of this class as it is now; raises NotRegistered."""
        rows = await self._connection.fetch(self._sql["select_consumer_views"], definition.name)
        return checked_views(definition, rows)

    async def _adopt(self, view: Definition, row: Record, *, allow_older_code: bool) -> None:
        """Take up new code: older processes stop at their next batch, and what failed on old code is tried again."""
        before = await self._connection.fetchval(self._sql["has_run_code"], row["view"], view.code)
        if before and not allow_older_code:
            raise Superseded(
                f"consumer {view.full_name!r} has gone on to newer code than this",
                remedy="Deploy the newer code, or start once with --allow-older-code to go back to this one on purpose",
            )
        await self._connection.execute(
            self._sql["set_code_fingerprint"], row["view"], view.code, view.looked_up_views
        )
        await self._connection.execute(self._sql["close_consumer_breaker"], row["number"])
        await self._connection.execute(
            self._sql["insert_audit_entry"],
            row["number"],
            "adopt-code",
            view.code.hex(),
            "projectionist",
            "older code taken up again" if before else "new code at start",
            msgspec.json.encode({"view": view.name} if view.is_member else {}).decode(),
        )

    async def _slots(self, definition: Definition, view: int) -> dict[str, str]:
        known = [row["name"] for row in await self._connection.fetch(self._sql["select_intent_slots"], view)]
        kept = frozen(definition.name, known, definition.slots)
        fresh = [slot for slot in definition.slots if slot not in kept]
        owner = f"{definition.cls.__module__}:{definition.cls.__qualname__}"
        await self._connection.execute(self._sql["insert_intent_slots"], view, fresh, [owner] * len(fresh))
        return kept


async def registration(connection: Connection, schema: str, name: str) -> Record:
    """Return the registration of the consumer `name`; raises NotRegistered."""
    row = await connection.fetchrow(Statements("projectionist.runner", schema)["select_consumer"], name)
    if row is None:
        raise NotRegistered(f"there is no consumer {name!r}", remedy="`projectionist status` lists them")
    return row


def disagreement(definition: Definition, row: Row) -> str | None:
    """Say in which way a class is another consumer than the registered one; None where it is the same. Pure."""
    for what, here, there in (
        ("kind", str(definition.kind), row["kind"]),
        ("stream", definition.stream, row["stream"]),
        ("subjects", " ".join(definition.subjects.texts), row["subjects"]),
        ("sequence", definition.sequence, row["sequence"]),
        ("baseline", str(definition.baseline), row["baseline"]),
    ):
        if here != there:
            return f"was registered with {what}={there!r}, its class now says {here!r}"
    return None


def checked_views(definition: ConsumerDefinition, rows: Sequence[Row]) -> list[Any]:
    """Return the registered row of each view of a class, in its order. Pure.

    Raises NotRegistered where class and database disagree, Superseded where the database is ahead of the class.
    """
    name, known = definition.name, {row["view_name"]: row for row in rows}
    if not rows:
        raise NotRegistered(
            f"consumer {name!r} is not in the database yet", remedy="Run `projectionist migrate`"
        )
    mine = {view.name for view in definition.views}
    for row in rows:
        if row["state"] == "live" and row["view_name"] not in mine:
            raise Superseded(
                f"consumer {name!r} feeds the view {row['view_name']!r}, which this code lacks",
                remedy="Deploy code that lists it; `projectionist migrate` with this code takes it out for good",
            )
    return [_checked(view, known.get(view.name)) for view in definition.views]


def _checked(definition: Definition, row: Row | None) -> Row:
    name = definition.full_name
    if row is None or row["state"] == "retired":
        raise NotRegistered(f"view {name!r} is not in the database yet", remedy="Run `projectionist migrate`")
    if differs := disagreement(definition, row):
        raise NotRegistered(
            f"consumer {name!r} {differs}",
            remedy='That is another consumer: give it a name of its own, name="…"',
        )
    if row["state"] != "live":
        return row  # batches leave it out, whatever its code
    if definition.revision < row["revision"]:
        raise Superseded(
            f"consumer {name!r} runs revision {row['revision']}, this code is revision {definition.revision}",
            remedy="Deploy the newer code, or go back with `projectionist generations rollback`",
        )
    if definition.revision > row["revision"]:
        return row  # whoever finds that has a generation to build before anything is applied
    if row["shape"] != definition.shape:
        raise NotRegistered(
            f"the table of {name!r} has another shape than its class",
            remedy="Run `projectionist migrate`, which adds columns; any other change takes "
            f"`projectionist rebuild {name}`",
        )
    return row

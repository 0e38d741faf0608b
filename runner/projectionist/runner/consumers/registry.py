"""How code and database agree on a consumer before its first batch: registration, code, effects mark, stream."""

from __future__ import annotations

import logging
import os
import socket
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.runner.batch.consumer import Consumer, ControlRow, Superseded
from projectionist.runner.consumers.header_mapping import written
from projectionist.runner.consumers.intent_slots import frozen
from projectionist.runner.database.barrier import alone

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import Definition
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
        definition: Definition,
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
        found = await self.checked(definition)
        number: int = found["number"]
        silent = definition.effects == "now" and not early
        effects_from = stream.state.last_seq + 1 if silent else 0
        slots = await self._bring_up(
            definition, number, effects_from=effects_from, allow_older_code=allow_older_code
        )
        runner = await self._insert_runner(definition, policy, number)
        control = await self._connection.fetchrow(self._sql["select_control_row"], number)
        assert control is not None
        return Consumer(
            definition,
            policy,
            number,
            found["key_name"],
            runner,
            slots=slots,
            control=ControlRow.of(control),
        )

    async def _bring_up(
        self, definition: Definition, number: int, *, effects_from: int, allow_older_code: bool
    ) -> dict[str, str]:
        """Take this code up beside no open batch; return the names under which renamed slots go on."""
        async with alone(self._connection, self._schema, number, "join"):
            row = await self.checked(definition)  # again: whoever held the barrier may have changed it
            fresh = row["code"] != definition.code
            if fresh:
                await self._adopt(definition, row, allow_older_code=allow_older_code)
            await self._connection.execute(self._sql["set_effects_start"], number, effects_from)
            slots = await self._slots(definition, row["view"])
        if fresh:
            log.info(
                "%s: new code taken up; rows written by older code stay until a rebuild", definition.name
            )
        return slots

    async def _insert_runner(self, definition: Definition, policy: Policy, number: int) -> int:
        host, pid = socket.gethostname(), os.getpid()
        headers = written(policy.headers)
        runner: int = await self._connection.fetchval(
            self._sql["insert_runner"], number, INSTANCE, host, pid, definition.code, headers
        )
        return runner

    async def checked(self, definition: Definition) -> Record:
        """Return the registration, if it is of this class as it is now; raises NotRegistered."""
        row = await self._connection.fetchrow(self._sql["select_consumer"], definition.name)
        return _checked(definition, row)

    async def _adopt(self, definition: Definition, row: Record, *, allow_older_code: bool) -> None:
        """Take up new code: older processes stop at their next batch, and what failed on old code is tried again."""
        before = await self._connection.fetchval(self._sql["has_run_code"], row["view"], definition.code)
        if before and not allow_older_code:
            raise Superseded(
                f"consumer {definition.name!r} has gone on to newer code than this",
                remedy="Deploy the newer code, or start once with --allow-older-code to go back to this one on purpose",
            )
        await self._connection.execute(self._sql["set_code_fingerprint"], row["view"], definition.code)
        await self._connection.execute(self._sql["close_consumer_breaker"], row["number"])
        await self._connection.execute(
            self._sql["insert_audit_entry"],
            row["number"],
            "adopt-code",
            definition.code.hex(),
            "projectionist",
            "older code taken up again" if before else "new code at start",
            "{}",
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


def disagreement(definition: Definition, row: Record) -> str | None:
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


def _checked(definition: Definition, row: Record | None) -> Record:
    name = definition.name
    if row is None:
        raise NotRegistered(
            f"consumer {name!r} is not in the database yet", remedy="Run `projectionist migrate`"
        )
    if differs := disagreement(definition, row):
        raise NotRegistered(
            f"consumer {name!r} {differs}",
            remedy='That is another consumer: give it a name of its own, name="…"',
        )
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

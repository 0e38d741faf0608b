"""Verbs on many parked events, entries of quarantine or intents, as operations: what is done to each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.operator import Act
from projectionist.core.postgres import connections
from projectionist.outbox.admin.intent_actions import IntentActions, SeenIntent
from projectionist.runner.admin.parked_actions import ParkedActions, SeenHead
from projectionist.runner.admin.quarantine_actions import QuarantineActions
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.operations.carrier import Carrier, last_word
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.operations.operation_store import OperationStore

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres
    from projectionist.core.states import OperationOutcome
    from projectionist.runner.admin.quarantine_actions import Place
    from projectionist.runner.operations.carrier import Told
    from projectionist.runner.operations.operation import OperationReport
    from projectionist.runner.operations.operation_store import Grant, OperationItem


async def carry_out(
    postgres: Postgres, grant: Grant, actor: str, told: Told, *, interrupted: OperationOutcome | None
) -> OperationReport:
    """Carry an operation out in the name of `actor`; return how it ended.

    Raises OperationLost where another process has taken it up. For `interrupted` see `last_word`.
    """
    async with last_word(postgres, grant, interrupted=interrupted):
        connection = await connections.connect(postgres, application_name="projectionist operation")
        try:
            store = OperationStore(connection, postgres.schema)
            found = await store.show(grant.number)
            verb = GroupVerb(connection, postgres.schema, OperationKind(found.kind), Act(actor, found.reason))
            return await Carrier(store, grant, verb.do, told).run()
        finally:
            connection.terminate()


class GroupVerb:
    """Does what an operation does to one of its items."""

    def __init__(self, connection: Connection, schema: str, kind: OperationKind, act: Act) -> None:
        self._connection, self._schema, self._kind, self._act = connection, schema, kind, act

    async def do(self, item: OperationItem) -> None:
        """Do it in the caller's transaction; raises TooLate or NotThere where it has moved meanwhile."""
        if item.key is not None and item.seen is not None:
            await self._send_again_or_discard(SeenIntent(item.key, item.seen, item.attempts))
            return
        store = store_of(self._connection, self._schema, item.consumer)
        if item.incarnation is not None and item.seq is not None:
            await self._read_again_or_discard(QuarantineActions(store), item, (item.incarnation, item.seq))
            return
        assert item.source is not None, "a parked event has an identity"
        assert item.id is not None, "a parked event has an identity"
        actions = ParkedActions(store)
        identity = (item.source, item.id)
        seen = SeenHead(item.version, identity, item.attempts)
        match self._kind:
            case OperationKind.RETRY_PARKED if item.aggregate is not None:
                await actions.retry(item.aggregate, self._act, seen=seen)
            case OperationKind.RETRY_PARKED:
                await actions.retry_entry(identity, self._act, attempts=item.attempts)
            case OperationKind.SKIP_PARKED if item.aggregate is not None:
                await actions.skip(item.aggregate, self._act, seen=seen)
            case OperationKind.SKIP_PARKED | OperationKind.DISCARD_PARKED:
                await actions.discard(identity, self._act, attempts=item.attempts)

    async def _send_again_or_discard(self, seen: SeenIntent) -> None:
        actions = IntentActions(self._connection, self._schema)
        if self._kind is OperationKind.RETRY_INTENTS:
            await actions.retry_seen(seen, self._act)
        else:
            await actions.discard_seen(seen, self._act)

    async def _read_again_or_discard(
        self, actions: QuarantineActions, item: OperationItem, place: Place
    ) -> None:
        if self._kind is OperationKind.RETRY_QUARANTINE:
            await actions.retry(place, self._act, attempts=item.attempts)
        else:
            await actions.discard(place, self._act, attempts=item.attempts)

"""Events that failed live and are waited for: read again, and given to new code with the rows it would have by then."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.digest import stand_in
from projectionist.core.postgres.error_text import said
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.folding.rows import Row, Rows
from projectionist.projections.tables.table_key import Keys, Prefix
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream.stream_reader import fetch
from projectionist.runner.preview.preview_result import HeadPreview
from projectionist.runner.verify.refold_rows import table_of

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.projections.folding.looked_up import LookedUpRows
    from projectionist.projections.folding.step import Step
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.preview.live_rows import LiveRows

MOST = 100
"""So many heads are tried."""
GONE = "the stream no longer holds it"
BEHIND = "this code fails on an event before it"


class FailedHead(msgspec.Struct):
    """One of them."""

    row: Record
    delivery: Delivery | None = None
    """None where the stream no longer holds it."""
    step: Step | None = None
    problem: str | None = None
    """Why it fails, whatever is in its row."""

    @property
    def key(self) -> Any:
        """Return the key of its row, or its Keys or Prefix; None where it has none."""
        return None if self.step is None or self.problem is not None else self.step.key

    def told(self, *, reveal: bool, mended: bool | None, now: str | None = None) -> HeadPreview:
        """Return it as it is told; the text of why it failed is content."""
        row = self.row
        text, kind = row["error"] or "", row["error_class"] or ""
        return HeadPreview(
            aggregate=row["aggregate"],
            version=row["version"],
            seq=row["seq"],
            type=row["type"],
            error=f"{kind}: {text}" if reveal else stand_in(text, kind),
            mended=mended,
            now=now,
        )


async def failed_heads(queries: Queries, client: Client, consumer: Consumer) -> tuple[list[FailedHead], int]:
    """Return the first of them as this code reads them, and how many there are."""
    rows = await queries.rows("select_failed_heads", consumer.number, MOST)
    if not rows:
        return [], 0
    definition = consumer.view.definition
    read = Decisions(await queries.rows("select_decisions", consumer.number)).reading(consumer.reader)
    seqs = [row["seq"] for row in rows if row["incarnation"] == consumer.incarnation]
    found = await fetch(client, definition.stream, definition.subjects.filter, seqs)
    heads = []
    for row in rows:
        arrival = found.get(row["seq"]) if row["incarnation"] == consumer.incarnation else None
        one = None if arrival is None else read(arrival)
        if isinstance(one, Delivery) and (one.source, one.id) == (row["source"], row["id"]):
            step = None if one.problem is not None else step_of(definition, one.seq, one)
            bad = step is not None and isinstance(step.key, Exception)
            heads.append(FailedHead(row, one, step, str(step.key) if bad and step else one.problem))
        else:
            heads.append(FailedHead(row))
    return heads, rows[0]["total"]


async def keys_of(head: FailedHead, live: LiveRows) -> Sequence[Any]:
    """Return the keys of a head's rows; below a prefix, of those that are live."""
    if isinstance(head.key, Keys):
        return head.key.listed
    if isinstance(head.key, Prefix):
        return await live.below(head.key)
    return [] if head.key is None else [head.key]


def tried(
    consumer: Consumer,
    head: FailedHead,
    rows: Mapping[Any, Row | None],
    failed: Container[str | None],
    looked_up: LookedUpRows,
    *,
    reveal: bool,
) -> HeadPreview:
    """Return what this code makes of a head; `rows` as it folds them, `failed` aggregates on which it fails before."""
    told = partial(head.told, reveal=reveal)
    if head.delivery is None:
        return told(mended=None, now=GONE)
    if head.delivery.aggregate in failed:
        return told(mended=False, now=BEHIND)
    if head.problem is not None:
        return told(mended=False, now=head.problem if reveal else stand_in(head.problem))
    if head.step is None:
        return told(mended=True)  # no handler takes its type any more: it is passed over
    there = {key: row for key, row in rows.items() if row is not None}
    folded = Rows(consumer.view.definition.cls, table_of(consumer)[0], there, looked_up)
    try:
        consumer.view.owned().check(head.step.handler, head.delivery.aggregate)
        folded.apply(head.step)
    except RAISED as error:  # a user's code: what it raises is told with its event
        if is_ours(error):
            raise
        return told(mended=False, now=f"{type(error).__name__}: {error}" if reveal else said(error))
    return told(mended=True)

"""Audit: who did what, and why; as a page, and as CSV."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from projectionist.console.pages import command_line, flag
from projectionist.core.printable_text import visible
from projectionist.runner.admin.audit_log import AuditFilter, acts

if TYPE_CHECKING:
    from starlette.requests import Request

    from projectionist.console.console_context import ConsoleContext

ROWS, MOST = 50, 10_000
COLUMNS = ("number", "at", "who", "action", "object", "reason", "session_role", "client")
FILTERS = ("consumer", "who", "action", "about")
_FORMULA, _BREAKS = frozenset("=+-@|%\N{MINUS SIGN}"), frozenset("\t\r\n")


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show the newest acts that the filters choose, or those before one."""
    rows, chosen = await _found(context, request, ROWS)
    given = {name: request.query_params.get(name) or None for name in FILTERS}
    words = [word for name, value in given.items() for word in flag(name, value)]
    return await context.page(
        request,
        "audit.html",
        "audit",
        rows=list(reversed(rows)),
        given=given,
        filtered=any(given.values()),
        before=chosen.before,
        older=rows[0]["number"] if len(rows) == ROWS else None,
        command=command_line("audit", *words),
    )


async def export(context: ConsoleContext, request: Request) -> Response:
    """Give the same as a file, for other programs; of very many the newest."""
    rows, _ = await _found(context, request, MOST)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows([cell(row[name]) for name in COLUMNS] for row in rows)
    named = {"content-disposition": 'attachment; filename="audit.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=named)


def cell(value: object) -> str:
    """Return a value as a spreadsheet takes it: a text that begins like a formula is none. Pure.

    Spreadsheets look past spaces, tabs and line ends before it, and take the wide forms of these letters as well.
    """
    text = "" if value is None else str(value)
    begins = unicodedata.normalize("NFKC", text.strip()[:1])
    told = visible(text)
    return f"'{told}" if begins in _FORMULA or text[:1] in _BREAKS else told


async def _found(
    context: ConsoleContext, request: Request, limit: int
) -> tuple[list[dict[str, Any]], AuditFilter]:
    query: Mapping[str, str] = request.query_params
    before = query.get("before", "")
    chosen = AuditFilter(
        consumer=query.get("consumer") or None,
        who=query.get("who") or None,
        action=query.get("action") or None,
        about=query.get("about") or None,
        before=int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None,
    )
    async with context.reading() as db:
        return await acts(db.connection, db.schema, chosen, limit=limit), chosen

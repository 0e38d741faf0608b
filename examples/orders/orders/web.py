"""The web: `uvicorn --factory orders.web:main`. Events are recorded in the transaction of the request."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import asyncpg
from fastapi import FastAPI, Header, HTTPException, Request, Response
from msgspec.structs import asdict
from pydantic import BaseModel, Field

from orders.app import OrderPaid, OrderPlaced, OrderSummary, app
from projectionist.api import App, EventReused, Recorded, VersionConflict, settings

TABLE = "create table if not exists orders (id text primary key, status text not null)"
PLACE = "insert into orders values ($1, 'placed') on conflict do nothing"
PAY = "update orders set status = 'paid' where id = $1"


class NewOrder(BaseModel):
    """The body of a request."""

    id: str = Field(pattern=r"^[\w-]{1,64}$")
    email: str
    total_cents: int = Field(gt=0)


class Shop:
    """The work of the requests, on one pool of connections."""

    def __init__(self, app: App, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self.app, self.pool = app, pool

    async def write(
        self, sql: str, order: str, event: OrderPlaced | OrderPaid, version: int, request: str | None
    ) -> Recorded:
        """Write a row of our own and record its event, both or neither. `request` makes a repeat harmless."""
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute(sql, order)
            return await self.app.outbox(connection).record(
                f"order/{order}", event, expected_version=version, id=request
            )

    async def answer(self, recorded: Recorded) -> dict[str, Any]:
        """Return the version, and whether the read model shows it: read your own writes."""
        shown = await self.app.wait_for(OrderSummary, recorded, timeout_s=5)
        return {"version": recorded.version, "shown": shown.is_applied}


def make_api(app: App, postgres_url: str, *, run: bool = True) -> FastAPI:
    """Return the service; `run`: with consumers and relay in this process."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        try:
            async with AsyncExitStack() as stack:
                pool = await stack.enter_async_context(asyncpg.create_pool(postgres_url, min_size=1))
                await pool.execute(TABLE)
                running = await stack.enter_async_context(app.running()) if run else None
                yield {"shop": Shop(app, pool), "running": running}
        except Exception:
            signal.raise_signal(signal.SIGTERM)  # uvicorn would serve on, without its consumers
            raise

    api = FastAPI(lifespan=lifespan)

    @api.post("/orders", status_code=201)
    async def place(
        body: NewOrder, request: Request, idempotency_key: Annotated[str | None, Header()] = None
    ) -> dict[str, Any]:
        event = OrderPlaced(email=body.email, total_cents=body.total_cents)
        shop: Shop = request.state.shop
        return await shop.answer(await shop.write(PLACE, body.id, event, 0, idempotency_key))

    @api.post("/orders/{order}/payment")
    async def pay(
        order: str, version: int, request: Request, idempotency_key: Annotated[str | None, Header()] = None
    ) -> dict[str, Any]:
        shop: Shop = request.state.shop
        return await shop.answer(await shop.write(PAY, order, OrderPaid(), version, idempotency_key))

    @api.get("/orders/{order}")
    async def show(order: str) -> dict[str, Any]:
        row = await app.read(OrderSummary, order)
        if row is None:
            raise HTTPException(404)
        return asdict(row)

    @api.get("/ready")
    async def ready(request: Request, response: Response) -> list[str]:
        running = request.state.running
        response.status_code = 200 if running is None or running.ready else 503
        return [] if running is None else running.why

    @api.exception_handler(VersionConflict)
    @api.exception_handler(EventReused)
    async def conflict(_: Request, error: Exception) -> Response:
        return Response(str(error), status_code=409)

    return api


def main() -> FastAPI:
    """Return the service as it is deployed."""
    url = settings().postgres.url
    if url is None:
        raise SystemExit("postgres.url is not set: set it, or start servers by `projectionist dev up`")
    return make_api(app, url.reveal())

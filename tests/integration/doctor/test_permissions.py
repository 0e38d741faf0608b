"""What `doctor --permissions` prints is enough for everything, and nothing of it is for nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from tests.support.nats_server import address, jetstream, server
from tests.support.process import Child, projectionist, run_projectionist
from tests.support.scrape import free_port
from tests.support.waiting import eventually

from projectionist.core.nats import connections
from projectionist.core.nats.subject_relations import covers
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats

pytestmark = [pytest.mark.asyncio, pytest.mark.deadline(300)]

APP = """
from projectionist.api import App, Event, Intent, NatsPublish, Projection, Stream, on


class OrderPlaced(Event, type="order.placed"):
    email: str


class Told(Intent, provider="told"):
    to: str


orders = Stream("ORDERS", "orders.order.{id}", source="shop", events=[OrderPlaced], max_age_s=MAX_AGE)


class OrderSummary(Projection, stream=orders, table="order_summary", key="order_id"):
    order_id: str
    email: str = ""

    @on(OrderPlaced)
    def placed(self, event: OrderPlaced) -> Told:
        self.email = event.email
        return Told(to=event.email)


app = App(projections=[OrderSummary], streams=[orders], providers={"told": NatsPublish})
"""
PRODUCE = """
import asyncio, os
import asyncpg
from shop import OrderPlaced, OrderSummary, app


async def main():
    async with app.publisher() as publisher:
        recorded = await publisher.record("order/o1", OrderPlaced(email="ann-secret"), expected_version=0)
    print(await app.wait_for(OrderSummary, recorded))
    connection = await asyncpg.connect(os.environ["PROJECTIONIST_POSTGRES__URL"])
    async with connection.transaction():
        recorded = await app.outbox(connection).record("order/o2", OrderPlaced(email="bob"), expected_version=0)
    print(await app.wait_for(OrderSummary, recorded, timeout_s=60))
    await connection.close()


asyncio.run(main())
"""
TOML = """
app = "shop:app"
[retention]
purge_interval_s = 3600
[providers.told]
subject = "told.{to}"
stream = "TOLD"
"""
RELOADED = "Reloaded server configuration"
WHY = ("--reason", "to see")
RARE = {
    ("run", "RESET"): "where a stream was replaced, or a durable deleted",
    ("run", "DELETE"): "where a durable passed over events, or a revision is built",
    ("run", "$JS.ACK.*.*."): "of newer servers",
    ("relay", "MSG.GET"): "where an attempt got no answer",
    ("producer", "NAMES"): "where the answer to a publish was lost",
    ("observe", "MSG.GET"): "where something is unread",
}
"""Rights for what does not happen in this test, by a part of their subject."""


class Shop:
    """A project in a folder, a database, and a nats-server with a user for each process."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.port = folder, free_port()
        self._env = {
            "PROJECTIONIST_POSTGRES__URL": database,
            "PROJECTIONIST_ACTOR": "ann",
        }
        self.declare(max_age_s=3600)
        (folder / "produce.py").write_text(PRODUCE)
        (folder / "projectionist.toml").write_text(TOML)

    def declare(self, max_age_s: int) -> None:
        (self.folder / "shop.py").write_text(APP.replace("MAX_AGE", str(max_age_s)))

    def env(self, user: str) -> dict[str, str]:
        return {**self._env, "PROJECTIONIST_NATS__URL": f"nats://{user}:x@127.0.0.1:{self.port}"}

    async def permissions(self) -> dict[str, dict[str, list[str]]]:
        ended = await run_projectionist(
            "doctor", "--permissions", "--json", cwd=self.folder, **self.env("none")
        )
        assert ended.code == 0, ended.err
        found: dict[str, dict[str, list[str]]] = json.loads(ended.out)
        return found

    async def block(self, process: str) -> str:
        ended = await run_projectionist(
            *("doctor", "--permissions", "--process", process), cwd=self.folder, **self.env("none")
        )
        assert ended.code == 0, ended.err
        return "permissions:" + ended.out.partition("\npermissions:")[2]

    async def configured(self, *processes: str, without: str = "no such right") -> str:
        """What a server is told that knows these processes as users, each with what is printed for it, and traces what
        they say; `without`: a part of what is printed that is left out."""
        users = [f"{{ user: {one}, password: x, {await self.block(one)} }}" for one in processes]
        users.append("{ user: admin, password: x }")
        users.append(
            '{ user: other, password: x, permissions: { publish: "nothing", subscribe: "_INBOX.>" } }'
        )
        lines = [
            '"of.no.use"' if without in line else line  # an empty list would allow everything
            for line in "\n".join(users).splitlines()
        ]
        place = self.folder / "nats"
        return f'pid_file: "{place}/pid"\ntrace: true\n{jetstream(place)}' + "\n".join(
            ["authorization { users = [", *lines, "] }"]
        )

    @asynccontextmanager
    async def served(self, *processes: str, without: str = "no such right") -> AsyncIterator[None]:
        place = self.folder / "nats"
        with server(place, await self.configured(*processes, without=without), port=self.port):
            await address(place)
            yield

    async def grant(self, *processes: str) -> None:
        """Have the server that runs give these users all that is printed."""
        place = self.folder / "nats"
        (place / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\nports_file_dir: "{place}"\n{await self.configured(*processes)}'
        )
        before = self.log().count(RELOADED)
        os.kill(int((place / "pid").read_text()), signal.SIGHUP)

        async def reloaded() -> bool:
            return self.log().count(RELOADED) > before

        await eventually(reloaded)

    async def call(self, user: str, *words: str, code: tuple[int, ...] = (0,)) -> str:
        ended = await run_projectionist(*words, cwd=self.folder, **self.env(user))
        assert ended.code in code, f"{words} ended with {ended.code}:\n{ended.out}{ended.err}"
        return ended.out

    async def produce(self) -> str:
        process = await create_subprocess_exec(
            *(sys.executable, "produce.py"),
            cwd=self.folder,
            env=self.env("producer"),
            stdout=PIPE,
            stderr=PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    def said(self) -> dict[str, set[str]]:
        """The subjects to which each user has published, as the server has read them."""
        users: dict[str, str] = {}
        found: dict[str, set[str]] = defaultdict(set)
        for line in self.log().splitlines():
            if trace := re.search(r"cid:(\d+) .*<<- \[(CONNECT|PUB|HPUB) (.*)\]$", line):
                cid, verb, rest = trace.groups()
                if verb == "CONNECT":
                    users[cid] = json.loads(rest).get("user", "")
                else:
                    found[users[cid]].add(rest.split()[0])
        return found

    def log(self) -> str:
        return (self.folder / "nats" / "log").read_text("utf-8", "replace")


async def test_everything_works_under_what_is_printed_and_all_of_it_is_used(
    tmp_path: Path, database: str
) -> None:
    shop = Shop(tmp_path, database)
    async with shop.served("operator"):
        await shop.call("operator", "migrate", "--streams")
        admin = await connections.connect(nats(shop, "admin"), name="admin")
        await admin.jetstream().add_stream(name="TOLD", subjects=["told.*"])
        await admin.close()
        assert shop.said()["operator"]
    needed = await shop.permissions()
    assert [one for one in needed["run"]["publish"] if one.startswith("$JS.ACK.ORDERS.OrderSummary-")]
    shop.declare(max_age_s=7200)
    async with shop.served(*needed):
        heard: list[str] = []
        other = await connections.connect(nats(shop, "other"), name="other")

        async def hear(message: Msg) -> None:
            heard.append(message.subject)

        await other.subscribe("_INBOX.>", cb=hear)
        await other.flush()
        await all_of_it(shop)
        assert heard == []
        await other.close()
    assert "Violation" not in shop.log(), [one for one in shop.log().splitlines() if "Violation" in one][:5]
    said = shop.said()
    unused = [
        (process, subject)
        for process, rights in needed.items()
        for subject in rights["publish"]
        if not any(covers(subject, one) for one in said[process])
        and not any(process == of and part in subject for of, part in RARE)
    ]
    assert not unused, unused


@pytest.mark.parametrize("lacking", ["CONSUMER.MSG.NEXT", "_INBOX_projectionist", "CONSUMER.INFO"])
async def test_a_runner_that_may_not_read_says_what_to_grant_and_goes_on_when_it_may(
    tmp_path: Path, database: str, lacking: str
) -> None:
    shop = Shop(tmp_path, database)
    users = "operator", "producer", "run"
    async with shop.served(*users):
        await shop.call("operator", "migrate", "--streams")
    async with (
        shop.served(*users, without=lacking),
        projectionist("run", cwd=shop.folder, env=shop.env("run")) as runner,
    ):
        await runner.said(lacking)
        verb = "subscribe" if "_INBOX" in lacking else "publish"
        assert f"NATS does not let this user {verb} to " in runner.err
        await shop.grant(*users)
        client = await connections.connect(nats(shop, "admin"), name="admin")
        headers = {"ce-id": "1", "ce-source": "shop", "ce-type": "order.placed", "ce-aggregateversion": "1"}
        await client.jetstream().publish("orders.order.o1", b'{"email": "ann"}', headers=headers)
        await client.close()
        assert "applied" in await shop.call(
            "operator", "wait", "OrderSummary", "--seq", "1", "--timeout", "60"
        )
        runner.signal(signal.SIGTERM)
        assert (await runner.ended()).code == 0


def nats(shop: Shop, user: str) -> Nats:
    url = Url(shop.env(user)["PROJECTIONIST_NATS__URL"])
    return Nats(url=(url,), inbox_prefix=f"_INBOX_{user}")


async def all_of_it(shop: Shop) -> None:
    """Every process and every command that asks NATS for something."""
    async with AsyncExitStack() as stack:
        runner = await started(stack, shop, "run", "run.started")
        relay = await started(stack, shop, "relay", "relay.running")
        produced = await shop.produce()
        assert produced.split() == ["applied"] * 2, f"{produced}{runner.err}{relay.err}"
        observer = await started(stack, shop, "observe", "telemetry.observed")
        await shop.call("operator", "migrate", "--streams")
        await shop.call("operator", "doctor", code=(0, 3))
        await shop.call("operator", "status", code=(0, 3))
        await shop.call("operator", "wait", "OrderSummary", "--seq", "1")
        await shop.call("operator", "audit-stream", "OrderSummary")
        await shop.call("operator", "journey", "--aggregate", "order/o1")
        await shop.call("rebuild", "rebuild", "OrderSummary")
        await shop.call("rebuild", "verify", "OrderSummary", "--all")
        await shop.call("rebuild", "recompute", "OrderSummary", "o1", *WHY)
        await shop.call("rebuild", "replay", "OrderSummary", "--from", "2020-01-01T00:00:00Z", *WHY)
        await eventually(lambda: both_told(shop))
        for child in (runner, relay, observer):
            child.signal(signal.SIGTERM)
            assert (await child.ended()).code == 0
    await shop.call("operator", "pause", "OrderSummary", *WHY)
    await shop.call("operator", "reset", "OrderSummary", "--yes", *WHY)
    assert "has read so far" in await refused(shop, "adopt", "OrderSummary", *WHY)
    await shop.call("operator", "retire", "OrderSummary", "--yes", *WHY)


async def started(stack: AsyncExitStack, shop: Shop, process: str, moment: str) -> Child:
    env = shop.env(process) | {
        "PROJECTIONIST_TELEMETRY__EXPORTER": "prometheus",
        "PROJECTIONIST_TELEMETRY__LISTEN": f"127.0.0.1:{free_port()}",
    }
    child = await stack.enter_async_context(projectionist(process, cwd=shop.folder, env=env))
    await child.heard(moment)
    return child


async def both_told(shop: Shop) -> bool:
    client = await connections.connect(nats(shop, "admin"), name="admin")
    try:
        return (await client.jetstream().stream_info("TOLD")).state.messages == 2
    finally:
        await client.close()


async def refused(shop: Shop, *words: str) -> str:
    ended = await run_projectionist(*words, cwd=shop.folder, **shop.env("operator"))
    assert ended.code == 1
    return ended.err

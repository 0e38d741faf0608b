"""`projectionist migrate` from its arguments to its exit code, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from importlib import invalidate_caches
from pathlib import Path

import asyncpg
import pytest
from tests.support.servers import Servers

from projectionist.migrations.catalog import released
from projectionist.ops.cli.output import Exit
from projectionist.ops.main import main

NAMES = [migration.name for migration in released("fresh")]

Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """Runs `projectionist migrate` on an empty schema; answers its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__URL", database)
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__SCHEMA", "fresh")
    monkeypatch.setenv("PROJECTIONIST_NATS__URL", "nats://127.0.0.1:1")

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["migrate", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def test_check_asks_for_attention_until_everything_is_applied(said: Said) -> None:
    code, text = said("--check")
    assert (code, text.splitlines()) == (
        Exit.ATTENTION,
        [f"pending in schema fresh: {name}" for name in NAMES],
    )
    code, text = said()
    assert (code, text.splitlines()) == (Exit.DONE, [f"applied to schema fresh: {name}" for name in NAMES])
    assert said("--check") == (Exit.DONE, "Nothing is pending in schema fresh.\n")
    assert said() == (Exit.DONE, "Schema fresh is up to date.\n")


def test_a_program_can_read_every_answer(said: Said) -> None:
    assert json.loads(said("--check", "--json")[1]) == {
        "schema": "fresh",
        "pending": NAMES,
        "read_models": [],
        "indexes": [],
    }
    steps = json.loads(said("--plan", "--json")[1])
    assert [step["name"] for step in steps["pending"]] == NAMES
    assert json.loads(said("--json")[1]) == {
        "schema": "fresh",
        "applied": NAMES,
        "read_models": [],
        "indexes": [],
    }
    assert json.loads(said("--json")[1]) == {
        "schema": "fresh",
        "applied": [],
        "read_models": [],
        "indexes": [],
    }


def test_a_plan_is_sql_that_does_the_same(said: Said, database: str) -> None:
    code, script = said("--plan")
    assert code == Exit.DONE
    assert said("--check")[0] == Exit.ATTENTION, "a plan changes nothing"

    async def by_hand() -> None:
        connection = await asyncpg.connect(database)
        await connection.execute(script)
        await connection.close()

    asyncio.run(by_hand())
    assert said("--plan") == (Exit.DONE, "Nothing is pending in schema fresh.\n")
    assert said() == (Exit.DONE, "Schema fresh is up to date.\n")


APP = """
from projectionist.projections import Event, Index, Projection, on
from projectionist.runner import App

class Placed(Event, type="order.placed"):
    customer: str

class Orders(
    Projection, stream="SHOP", subjects="shop.order.{aggregate}", table="orders", key="order_id",
    indexes=(Index("customer"),),
):
    order_id: str
    customer: str = ""
    FIELDS

    @on(Placed)
    def placed(self, event: Placed) -> None:
        self.customer = event.customer

app = App(projections=[Orders])
"""


def test_read_models_are_planned_made_and_evolved(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    monkeypatch.chdir(tmp_path)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def deploy(fields: str) -> None:
        (tmp_path / "shop_app.py").write_text(APP.replace("FIELDS", fields))
        sys.modules.pop("shop_app", None)
        invalidate_caches()

    deploy("")
    assert "-- read model of Orders: create" in said("shop_app:app", "--plan")[1]
    assert "done: create the read model of Orders" in said("shop_app:app")[1]
    assert said("shop_app:app") == (Exit.DONE, "Schema fresh is up to date.\n")

    deploy("cents: int = 0")
    assert 'add column "cents" bigint not null default' in said("shop_app:app", "--plan")[1]
    assert said("shop_app:app")[0] == Exit.DONE

    deploy("cents: str = ''")
    code, text = said("shop_app:app")
    assert code == Exit.ATTENTION
    assert "Orders needs a rebuild: column 'cents' was bigint and is text" in text

    async def columns() -> list[str]:
        connection = await asyncpg.connect(database)
        rows = await connection.fetch(
            "select column_name from information_schema.columns where table_name = 'orders'"
        )
        await connection.close()
        return [row[0] for row in rows]

    assert sorted(asyncio.run(columns())) == ["cents", "customer", "order_id"]


def test_a_database_that_cannot_be_reached_is_one_line(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__URL", "postgresql://u:c4n4ry@127.0.0.1:1/shop")
    code, text = said()
    assert code == Exit.FAILED
    assert text.startswith("error: PostgreSQL at postgresql://***@127.0.0.1:1/shop cannot be reached")
    assert "c4n4ry" not in text
    assert len(text.splitlines()) == 1


def test_without_a_url_the_error_says_how_to_get_one(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROJECTIONIST_POSTGRES__URL")
    code, text = said()
    assert code == Exit.FAILED
    assert "projectionist dev up" in text


def test_plan_and_check_together_are_wrong_usage(said: Said) -> None:
    with pytest.raises(SystemExit) as ended:
        said("--plan", "--check")
    assert ended.value.code == Exit.USAGE


STREAMS = """
from projectionist.projections import Event, Reactor, Stream, on
from projectionist.runner import App

class Placed(Event, type="order.placed"):
    customer: str

streams = [Stream("NAME", "NAME.order.{id}", source="shop-api", events=[Placed]OPTIONS)]

class Mailer(Reactor, stream=streams[0], sequence="unordered"):
    @on(Placed)
    def placed(self, event: Placed) -> None: ...

app = App(projections=[Mailer], streams=streams)
"""


def test_streams_are_named_planned_made_and_grown(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers, database: str
) -> None:
    monkeypatch.setenv("PROJECTIONIST_NATS__URL", servers.nats_url)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"MIGRATED_{database.rpartition('/')[2]}"

    def deploy(options: str = "") -> None:
        text = STREAMS.replace("NAME", name).replace("OPTIONS", options)
        (tmp_path / "stream_app.py").write_text(text)
        sys.modules.pop("stream_app", None)
        invalidate_caches()

    deploy()
    code, text = said("stream_app:app")
    assert code == Exit.DONE
    assert f"note: stream {name} is missing: `projectionist migrate --streams` mends that" in text
    assert (
        said("stream_app:app", "--check")[0] == Exit.DONE
    )  # who makes streams by other means asks nothing of us
    assert said("stream_app:app", "--streams", "--check")[0] == Exit.ATTENTION
    assert f"-- stream {name}: create" in said("stream_app:app", "--streams", "--plan")[1]
    assert said("stream_app:app", "--streams", "--check")[0] == Exit.ATTENTION, "a plan changes nothing"
    code, text = said("stream_app:app", "--streams")
    assert (code, text.splitlines()[1:]) == (
        Exit.DONE,
        [f"done: create stream {name}: takes {name}.order.*"],
    )
    code, text = said("stream_app:app", "--streams")
    assert (code, text.splitlines()[1:]) == (Exit.DONE, [f"Stream {name} is as declared."])

    deploy(', subjects=["NAME.old.>"], duplicate_window_s=300'.replace("NAME", name))
    assert f"stream {name} is not as declared" in said("stream_app:app")[1]
    code, text = said("stream_app:app", "--streams", "--json")
    assert code == Exit.DONE
    assert json.loads(text)["streams"][0]["config"]["subjects"] == [f"{name}.order.*", f"{name}.old.>"]

    deploy(', subjects=["NAME.old.>"], max_age_s=3600'.replace("NAME", name))
    code, text = said("stream_app:app", "--streams")
    assert code == Exit.ATTENTION
    assert f"stream {name}: max_age_s is without limit and declared as 3600: it is never lowered here" in text
    assert f"nats stream edit {name} --max-age 3600s" in text


def test_a_stream_made_to_forget_warns_of_consumers_that_would_not_start(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers, database: str
) -> None:
    monkeypatch.setenv("PROJECTIONIST_NATS__URL", servers.nats_url)
    (tmp_path / "projectionist.toml").write_text("[consumers.Mailer]\nretention_s = 3600\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"FORGETS_{database.rpartition('/')[2]}"
    text = STREAMS.replace("NAME", name).replace("OPTIONS", ", max_age_s=86_400")
    (tmp_path / "stream_app.py").write_text(text)
    sys.modules.pop("stream_app", None)
    invalidate_caches()
    said("stream_app:app")
    text = said("stream_app:app", "--streams", "--check")[1]
    assert "an event goes after 86400 s, applied or not" in text
    assert "Mailer: retention_s = 3600, but the stream keeps a message for 86400 s" in text


def test_streams_of_a_broker_that_is_away_are_a_note(said: Said, tmp_path: Path) -> None:
    (tmp_path / "stream_app.py").write_text(STREAMS.replace("NAME", "SHOP").replace("OPTIONS", ""))
    sys.modules.pop("stream_app", None)
    invalidate_caches()
    code, text = said("stream_app:app")
    assert code == Exit.DONE
    assert "note: whether the streams are as declared cannot be told" in text

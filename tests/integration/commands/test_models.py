"""Models that `projectionist models` writes are loaded by the real libraries, and read live views."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
import sqlalchemy
from sqlalchemy.orm import Session
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Stream
from tests.support.shop import OrderPlaced

from projectionist.ops.main import main
from projectionist.projections import Projection, SqlProjection, Tx, on
from projectionist.runner import App

pytestmark = pytest.mark.asyncio

KEY = UUID(int=7)


def consumers(stream: Stream) -> list[type]:
    """Columns of every kind, and names that a library keeps for itself."""
    policy: dict[str, Any] = {"stream": stream.name, "subjects": stream.subject("order", "{aggregate}")}

    class Parcels(Projection, table="finance.parcels", key="parcel_id", **policy):
        """One row a parcel: "whole"."""

        parcel_id: UUID
        total: Decimal = Decimal(0)
        date: dt.date = dt.date(2000, 1, 1)
        at: datetime | None = None
        raw: bytes = b""
        weight: float = 0.0
        lines: list[dict[str, int]] = []
        tags: dict[str, str] = {}
        metadata: str = ""
        pk: int = 0
        a__b: bool = False

        @on(OrderPlaced, key=lambda event: UUID(int=event.cents))
        def placed(self, event: OrderPlaced) -> None:
            self.total, self.raw, self.weight = Decimal("10000.50"), b"\x00\xff", 0.5
            self.at, self.date = datetime(2026, 3, 29, 2, 30, tzinfo=UTC), dt.date(2026, 3, 29)
            self.lines, self.tags = [{"shoe": 1}], {"colour": "red"}
            self.metadata, self.pk, self.a__b = event.customer, 5, True

    class Visits(SqlProjection, **policy):
        tables = {
            "visits": "customer varchar(80), day date, n integer not null, primary key (customer, day)",
            "keyless": "n integer",
        }

        @on(OrderPlaced)
        async def placed(self, tx: Tx, event: OrderPlaced) -> None:
            await tx.execute("insert into {visits} values ($1, '2026-03-29', 3)", event.customer)

    return [Parcels, Visits]


DJANGO = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command
from psycopg.conninfo import conninfo_to_dict

given = conninfo_to_dict(sys.argv[1])
database = {"ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"], "USER": given.get("user", "")}
database |= {"HOST": given.get("host", ""), "PORT": given.get("port", ""), "PASSWORD": given.get("password", "")}
settings.configure(
    DATABASES={"default": database}, INSTALLED_APPS=["views"], USE_TZ=True, SILENCED_SYSTEM_CHECKS=[]
)
django.setup()
call_command("check", fail_level="WARNING", stdout=sys.stderr)
from views.models import Parcels, Visits

row = Parcels.objects.get(metadata="ann")
assert Parcels.objects.filter(total__gt=10000, a_b=True).count() == 1
visit = Visits.objects.get(pk=("ann", "2026-03-29"))
print(json.dumps([str(row.total), row.date.isoformat(), row.at.isoformat(), bytes(row.raw).hex(), row.lines, row.tags,
    str(row.parcel_id), row.pk_column, row.a_b, visit.n]))
"""


async def test_models_of_each_library_read_the_live_views(
    live: ConsumerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = consumers(live.stream)
    await live.pool.execute("create schema finance")
    await live.migrate(*classes)
    for cls in classes:
        async with batch_drivers(live, cls) as (driver,):
            await driver.settle(driver.read(OrderPlaced("ann", 7), "o1", 1))
    module = ModuleType("models_shop")
    module.app = App(projections=classes)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "models_shop", module)
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__URL", live.database)

    async def written(library: str) -> str:
        assert await asyncio.to_thread(main, ["models", "models_shop:app", f"--{library}"]) == 0
        said = capsys.readouterr()
        assert said.err == "left out: public.keyless is not in the database yet, or has no primary key\n"
        return said.out

    def loaded(text: str) -> ModuleType:
        made = ModuleType("written_models")
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(compile(text, "models.py", "exec"), made.__dict__)  # noqa: S102 - that is what its reader does
        return made

    await _by_msgspec(loaded(await written("msgspec")), live)
    await asyncio.to_thread(_by_sqlalchemy, loaded(await written("sqlalchemy")), live.database)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "__init__.py").touch()
    (tmp_path / "views" / "models.py").write_text(await written("django"))
    command = [sys.executable, "-c", DJANGO, live.database]
    ended = await asyncio.to_thread(subprocess.run, command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    seen = ["10000.50", "2026-03-29", "2026-03-29T02:30:00+00:00", "00ff", [{"shoe": 1}], {"colour": "red"}]
    assert json.loads(ended.stdout) == [*seen, str(KEY), 5, True, 3]


async def _by_msgspec(models: ModuleType, live: ConsumerHarness) -> None:
    connection = await asyncpg.connect(live.database)
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=str, decoder=msgspec.json.decode)
    row = await connection.fetchrow("select * from finance.parcels")
    visit = await connection.fetchrow("select * from visits")
    await connection.close()
    assert row is not None
    assert visit is not None
    _check(msgspec.convert(dict(row), models.Parcels))
    assert msgspec.convert(dict(visit), models.Visits).n == 3


def _by_sqlalchemy(models: ModuleType, url: str) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
    with Session(engine) as session:
        row = session.get(models.Parcels, KEY)
        _check(row, metadata="metadata_column")
        assert session.get(models.Visits, ("ann", dt.date(2026, 3, 29))).n == 3  # type: ignore[union-attr]
        with pytest.raises(sqlalchemy.exc.DBAPIError, match="cannot update view"):
            session.execute(sqlalchemy.update(models.Parcels).values(pk=6))
    engine.dispose()


def _check(row: Any, metadata: str = "metadata") -> None:
    assert (row.parcel_id, str(row.total), row.date) == (KEY, "10000.50", dt.date(2026, 3, 29))
    assert row.at == datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
    assert (row.raw, row.weight, row.pk, row.a__b) == (b"\x00\xff", 0.5, 5, True)
    assert (row.lines, row.tags) == ([{"shoe": 1}], {"colour": "red"})
    assert getattr(row, metadata) == "ann"


async def test_without_a_library_the_command_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["models", "shop:app"])
    assert "--sqlalchemy --django --msgspec" in capsys.readouterr().err

"""The fixture `projectionist`: an app at work on real servers, in a database and on streams of a test alone."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from projectionist.api import App, Event, Intent, Projection, Reactor, SqlProjection, Tx, on
from projectionist.testing import Live, OldEvent

pytestmark = pytest.mark.asyncio


class ParcelSent(Event, type="parcel.sent"):
    to: str


class ParcelLost(Event, type="parcel.lost"):
    pass


class ParcelHeld(Event, type="parcel.held"):
    pass


class Apology(Intent, provider="email"):
    to: str


class Parcels(
    Projection, stream="PARCELS", subjects="parcels.parcel.{id}", table="parcels_of_test", key="parcel"
):
    parcel: str
    to: str = ""

    @on(ParcelSent)
    def sent(self, event: ParcelSent) -> None:
        self.to = event.to

    @on(ParcelLost)
    def lost(self, event: ParcelLost) -> Apology:
        return Apology(to=self.to)


class ParcelWatch(Reactor, stream="PARCELS", subjects=("parcels.*.{id}", "others.>")):
    @on(ParcelHeld)
    def held(self, event: ParcelHeld) -> Apology:
        raise LookupError("nobody knows why")


class ParcelLog(SqlProjection, stream="HELD", subjects="held.parcel.{id}"):
    tables = {"parcel_log_of_test": "parcel text"}

    @on(ParcelHeld)
    async def held(self, tx: Tx, event: ParcelHeld) -> None:
        await tx.execute("insert into {parcel_log_of_test} values ('held')")


@pytest.fixture(scope="module")
def projectionist_app() -> App:
    return App(projections=[Parcels, ParcelWatch, ParcelLog])


async def test_rows_and_intents_are_those_of_the_events_that_were_published(projectionist: Live) -> None:
    await projectionist.publish("parcel/p-1", ParcelSent("ann"), ParcelLost())
    await projectionist.publish("parcel/p-2", OldEvent("parcel.sent", {"to": "bob"}))
    await projectionist.settled()
    assert await projectionist.row(Parcels, "p-1") == Parcels(parcel="p-1", to="ann")
    assert await projectionist.intents() == [Apology(to="ann")]
    assert [one.id for one in projectionist.requests] == ["parcel/p-1:2"]


async def test_the_next_test_finds_nothing_of_the_one_before(projectionist: Live) -> None:
    await projectionist.settled(Parcels)
    assert await projectionist.row(Parcels, "p-1") is None
    assert await projectionist.intents() == []
    await projectionist.publish("parcel/p-1", ParcelSent("eve"))
    await projectionist.settled(Parcels)
    assert await projectionist.row(Parcels, "p-1") == Parcels(parcel="p-1", to="eve")


async def test_what_is_not_applied_is_told_with_its_reason(projectionist: Live) -> None:
    [first, second] = await projectionist.publish("parcel/p-1", ParcelHeld())
    assert (first.stream, second.stream) == ("PARCELS", "HELD")
    await projectionist.settled(Parcels, ParcelLog)
    with pytest.raises(
        AssertionError, match=r"ParcelWatch, event 1 of PARCELS: parked, because it failed.*LookupError"
    ):
        await projectionist.settled()


PROJECT = {
    "projectionist.toml": 'app = "parcels:app"\n',
    "parcels.py": """
        from projectionist.api import App, Event, Projection, Stream, on

        class Sent(Event, type="sent"):
            to: str

        stream = Stream("PARCELS", "parcels.{type}.{id}", source="depot", events=[Sent])

        class Parcels(Projection, stream=stream, table="parcels", key="parcel"):
            parcel: str
            to: str = ""

            @on(Sent)
            def sent(self, event: Sent) -> None:
                self.to = event.to

        app = App(projections=[Parcels], streams=[stream])
        """,
    "test_parcels.py": """
        import asyncio
        import asyncpg
        import pytest
        from parcels import Parcels, Sent

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        @pytest.mark.parametrize("to", ["ann", "bob"])
        async def test_by_anyio(projectionist, to):
            await projectionist.publish("parcel/p-1", Sent(to))
            await projectionist.settled(Parcels)
            assert (await projectionist.row(Parcels, "p-1")).to == to

        def test_by_hand(projectionist):
            async def story():
                await projectionist.publish("parcel/p-1", Sent("eve"))
                await projectionist.settled()
                assert (await projectionist.row(Parcels, "p-1")).to == "eve"

            asyncio.run(story())

        def test_recorded(projectionist):
            async def story():
                connection = await asyncpg.connect(projectionist.settings.postgres.url.reveal())
                async with connection.transaction():
                    outbox = projectionist.app.outbox(connection)
                    await outbox.record("parcel/p-1", Sent("zoe"), expected_version=0)
                await connection.close()
                await projectionist.settled()
                assert (await projectionist.row(Parcels, "p-1")).to == "zoe"
                assert await projectionist.intents() == []

            asyncio.run(story())
        """,
}


async def test_a_project_has_it_without_a_plugin_for_asyncio_and_with_several_workers(tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(dedent(text))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:asyncio", "-p", "no:cacheprovider"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(tmp_path)},
    )
    said = (await process.communicate())[0].decode()
    assert "4 passed" in said, said


async def test_a_run_of_pytest_that_asks_for_none_of_it_imports_nothing_heavy() -> None:
    code = "import sys, projectionist.testing.plugin; print(*{'anyio', 'asyncpg', 'msgspec', 'nats'} & {*sys.modules})"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0].split() == []
    assert process.returncode == 0

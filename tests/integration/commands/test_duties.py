"""Every command of the command line under every role of the database: it works, or says which right is missing."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import anyio.to_thread
import asyncpg
import pytest
import pytest_asyncio
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.duties import named, with_duties
from tests.support.planting import plant
from tests.support.process import projectionist
from tests.support.recording import CartOpened, RecordingApp
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment

from projectionist.core.postgres.rights import GRANTED, Duty
from projectionist.ops.cli.command_duties import COMMANDS
from projectionist.ops.main import main
from projectionist.outbox.recording.recorded import VersionConflict

pytestmark = pytest.mark.asyncio

WHY = "--reason tested --actor ann"
CALLS: dict[str, Duty] = {
    "status": Duty.OBSERVER,
    "status --by type": Duty.OBSERVER,
    f"doctor {APP}": Duty.OBSERVER,
    "journey bad": Duty.OBSERVER,
    "journey --aggregate order/o0": Duty.OBSERVER,
    "audit": Duty.OBSERVER,
    "audit --verify": Duty.OBSERVER,
    "parked list": Duty.OBSERVER,
    "parked list --each": Duty.OBSERVER,
    "parked show bad": Duty.OBSERVER,
    "quarantine list": Duty.OBSERVER,
    "quarantine list --each": Duty.OBSERVER,
    "incidents list": Duty.OBSERVER,
    "operations list": Duty.OBSERVER,
    "operations show 1": Duty.OBSERVER,
    "operations watch 1": Duty.OBSERVER,
    "outbox list": Duty.OBSERVER,
    f"generations list {APP} Orders": Duty.OBSERVER,
    f"wait {APP} Orders --source shop --id e1": Duty.OBSERVER,
    f"parked show bad --reveal {WHY}": Duty.OPERATOR,
    f"events check {APP} --reveal {WHY}": Duty.OPERATOR,
    f"parked retry bad --consumer Orders {WHY}": Duty.OPERATOR,
    f"parked skip worse --consumer Orders {WHY}": Duty.OPERATOR,
    f"parked discard behind --consumer Orders {WHY}": Duty.OPERATOR,
    f"parked discard bad --consumer Mailer {WHY}": Duty.OPERATOR,
    f"parked accept-gap --aggregate order/o3 {WHY}": Duty.OPERATOR,
    f"quarantine discard {{odd}} --consumer Orders {WHY}": Duty.OPERATOR,
    f"parked retry --cause failed --all --wait 0 {WHY}": Duty.OPERATOR,
    f"operations take-up 1 {WHY}": Duty.OPERATOR,
    f"operations stop 2 {WHY}": Duty.OPERATOR,
    f"outbox discard one {WHY}": Duty.OPERATOR,
    f"outbox retry other {WHY}": Duty.OPERATOR,
    f"incidents close 1 {WHY}": Duty.OPERATOR,
    f"breaker reset Orders {WHY}": Duty.OPERATOR,
    f"pause Orders {WHY}": Duty.OPERATOR,
    f"resume Orders {WHY}": Duty.OPERATOR,
    f"views attach More {WHY}": Duty.OPERATOR,
    f"verify {APP} Orders": Duty.RUNNER,
    f"recompute {APP} Orders o1 {WHY}": Duty.RUNNER,
    f"replay {APP} Orders --from 1 {WHY}": Duty.RUNNER,
    f"preview {APP} Orders": Duty.RUNNER,
    f"preview {APP} Orders --reveal {WHY}": Duty.RUNNER,
    f"row {APP} Orders o1": Duty.RUNNER,
    f"models {APP} --msgspec": Duty.OBSERVER,
    f"purge {APP}": Duty.RUNNER,
    f"migrate {APP}": Duty.OWNER,
    "roles plan": Duty.OWNER,
    "roles apply": Duty.OWNER,
    f"erase {APP} --event bad --source shop --plan": Duty.OWNER,
    f"erase {APP} --aggregate order/o3 --stream {WHY}": Duty.OWNER,
    f"rebuild {APP} Orders --plan": Duty.OWNER,
    f"rebuild {APP} Orders --accept-differences": Duty.OWNER,
    f"generations drop {APP} Orders 1": Duty.OWNER,
    f"reset Spend {WHY} --yes": Duty.OWNER,
    f"retire Spend {WHY} --yes": Duty.OWNER,
}
LEFT = """
    insert into {s}.intents (key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash)
    select key, 1, 'shop', 'e1', 's', 'c', 'p', 'd', 'pass', '', '' from unnest('{one,other}'::text[]) key;
    insert into {s}.outbox (seq, provider, destination, lane, place, state)
    select seq, 'p', 'd', key, seq, 'dead' from {s}.intents where key in ('one', 'other');
    insert into {s}.views (consumer, name, key_name, kind, shape, code, state)
    values (1, 'More', 'More', 'reactor', '', '', 'detached');
    insert into {s}.incidents (consumer, kind, incarnation, seq, detail) values (1, 'late', 1, 1, 'd');
    insert into {s}.operations (kind, chosen, who, reason, rate, patience_s)
    values ('retry_parked', '{}', 'ann', 'r', 9, 0), ('retry_parked', '{}', 'ann', 'r', 9, 0)"""
ELSEWHERE = "update {s}.owner set database = 0, name = 'another'"
"""Has the database be a copy: its schema was at home in another one."""
PROCESSES = {
    f"run {APP}": Duty.RUNNER,
    "relay tests.support.relay_app:hooks": Duty.RELAY,
    "observe": Duty.OBSERVER,
}


@pytest_asyncio.fixture
async def urls(live: ConsumerHarness) -> AsyncIterator[dict[Duty, str]]:
    """Two consumers with rows, a failed event, one in quarantine, a role of each duty, and what others planted."""
    s, apart = shop(live.stream), shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders, s.Spend, apart.Mailer)
    s.trouble.poison.add("bad")
    apart.trouble.poison.add("bad")
    for number in range(3):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)
    await live.publish(OrderPlaced("ann", 1), "o3", 1)
    for number, event in enumerate(("bad", "worse", "stuck")):
        await live.publish(OrderNoted("bad"), f"o{number}", 3, id=event)
    await live.publish(OrderNoted("good"), "o2", 4, id="behind")
    await live.publish(OrderNoted("good"), "o3", 3)
    await live.nats.jetstream().publish(live.stream.subject("order", "o9"), b"{", headers={"ce-id": "odd"})
    await live.settle(s.Orders, s.Spend, apart.Mailer)
    await live.pool.execute(LEFT.replace("{s}", SCHEMA))
    live.tampered = True  # consumers are reset and retired
    await plant(live)
    async with with_duties(live) as made:
        yield made


def permitted(duty: Duty, needs: Duty) -> bool:
    """Return whether a role with this duty is to do what takes another one."""
    return duty in (Duty.OWNER, needs) or (duty, needs) == (Duty.OPERATOR, Duty.OBSERVER)


def settle_environment(monkeypatch: pytest.MonkeyPatch, live: ConsumerHarness, url: str) -> None:
    """Have commands in this process work on the harness's servers as the role of the URL."""
    for name, value in environment(live, poison="bad").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PROJECTIONIST_POSTGRES__URL", url)
    monkeypatch.delitem(sys.modules, "tests.support.shop_app", raising=False)


async def refusal_of(
    live: ConsumerHarness,
    call: str,
    duty: Duty,
    needs: Duty,
    capsys: pytest.CaptureFixture[str],
) -> str | None:
    """Call a command as the role of a duty; None where it works, else what it says, which has to be the right one."""
    try:
        code: int | str = await anyio.to_thread.run_sync(main, call.split())
    except BaseException as error:  # noqa: BLE001  a traceback is what no user may see
        code = f"{type(error).__name__}: {error}"
    shown = capsys.readouterr()
    if code in (0, 3) and not any(word in shown.err + shown.out for word in ("denied", "planted:")):
        return None
    told = f"role '{named(live, duty)}'" in shown.err and (
        f"roles apply --{needs} " in shown.err or f"'{named(live, Duty.OWNER)}'" in shown.err
    )
    text = f"{call}: {code}\n{shown.err[-600:]}{shown.out[-300:]}"
    assert (told, code, permitted(duty, needs)) == (True, 1, False), text
    return shown.err


@pytest.mark.parametrize("duty", list(Duty))
async def test_each_command_works_for_its_duty_and_tells_others_what_is_missing(
    live: ConsumerHarness,
    urls: dict[Duty, str],
    duty: Duty,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settle_environment(monkeypatch, live, urls[duty])
    odd = str((await live.nats.jetstream().stream_info(live.stream.name)).state.last_seq)
    wrong: list[str] = []
    for call, needs in CALLS.items():
        try:
            await refusal_of(live, call.format(odd=odd), duty, needs, capsys)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)
    left = await inspection.rows(live, "operations", "kind", ended=None)
    assert {kind for (kind,) in left} <= {"retry_parked"}, "a long act says how it ended, or is gone"


async def test_an_erase_changes_something_for_the_owner_alone(
    live: ConsumerHarness,
    urls: dict[Duty, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = f"erase {APP} --aggregate order/o3 --stream {WHY}"
    before = await changeable(live)
    for duty in (*GRANTED, Duty.OWNER):
        settle_environment(monkeypatch, live, urls[duty])
        refused = await refusal_of(live, call, duty, Duty.OWNER, capsys)
        assert bool(refused) == (duty is not Duty.OWNER), duty
        assert (await changeable(live) == before) == bool(refused), duty
        if refused:
            assert f"run it as '{named(live, Duty.OWNER)}', or make this role its member" in refused
    assert [row[0] for row in await live.rows("orders")] == ["o0", "o1", "o2"]


async def changeable(live: ConsumerHarness) -> list[object]:
    """Return what an erase changes: rows, decisions, acts, and messages of the stream."""
    messages = (await live.nats.jetstream().stream_info(live.stream.name)).state.messages
    tables = ("decisions", "audit", "inbox where state = 'erased'")
    return [
        await live.rows("orders"),
        messages,
        *[await live.value(f"select count(*) from {{s}}.{one}") for one in tables],
    ]


async def test_a_database_and_a_stream_are_adopted_by_who_may_decide(
    live: ConsumerHarness,
    urls: dict[Duty, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    worked = set()
    for duty in (*GRANTED, Duty.OWNER):
        await live.pool.execute(ELSEWHERE.replace("{s}", SCHEMA))
        await replace(live)
        settle_environment(monkeypatch, live, urls[duty])
        if await refusal_of(live, f"adopt --database {WHY}", duty, Duty.OPERATOR, capsys) is None:
            assert await refusal_of(live, f"adopt Orders {WHY}", duty, Duty.OPERATOR, capsys) is None
            worked.add(duty)
        else:
            assert await live.value("select name from {s}.owner") == "another", duty
    assert worked == {Duty.RUNNER, Duty.OPERATOR, Duty.OWNER}


async def replace(live: ConsumerHarness) -> None:
    """Have the stream be another one of the same name."""
    stream = live.nats.jetstream()
    await stream.delete_stream(live.stream.name)
    await stream.add_stream(name=live.stream.name, subjects=[live.stream.subjects])


async def test_a_program_records_as_a_recorder_and_sees_nothing_that_waits_or_was_read(
    live: ConsumerHarness, urls: dict[Duty, str]
) -> None:
    cart = RecordingApp(live.servers, live.database, live.stream)
    for duty in (Duty.RECORDER, Duty.OBSERVER, Duty.READER):
        connection = await asyncpg.connect(urls[duty])
        recorder = cart.app.outbox(connection)
        try:
            if duty is Duty.RECORDER:
                async with connection.transaction():
                    first = await recorder.record("cart/1", CartOpened("ann"), expected_version=0, id="r")
                async with connection.transaction():
                    again = await recorder.record("cart/1", CartOpened("ann"), expected_version=0, id="r")
                    assert (first.version, again.version, again.repeated) == (1, 1, True)
                    with pytest.raises(VersionConflict):
                        await recorder.record("cart/1", CartOpened("bob"), expected_version=0)
                for table in ("inbox", "parked", "quarantine", "orders__g1"):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await connection.fetch(f"select from {SCHEMA}.{table}")
            else:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    async with connection.transaction():
                        await recorder.record("cart/2", CartOpened("ann"), expected_version=0)
        finally:
            await connection.close()
    assert await live.fetch("select aggregate, version from {s}.recorded_aggregates") == [("cart/1", 1)]


@pytest.mark.parametrize("call", PROCESSES)
async def test_each_process_works_for_its_duty_and_tells_others_what_is_missing(
    live: ConsumerHarness, urls: dict[Duty, str], call: str
) -> None:
    needs = PROCESSES[call]
    env = environment(
        live, poison="bad", telemetry__exporter="otlp", telemetry__endpoint="http://127.0.0.1:9"
    )
    begun = {"run": "worker.running", "relay": "relay.running", "observe": "telemetry.observed"}[
        call.split(maxsplit=1)[0]
    ]
    for duty in (needs, Duty.READER):
        async with projectionist(
            *call.split(), env={**env, "PROJECTIONIST_POSTGRES__URL": urls[duty]}
        ) as child:
            if duty is needs:
                await child.heard(begun)
                child.signal(signal.SIGTERM)
                ended = await child.ended()
                assert (ended.code, "denied" in ended.err) == (0, False), ended.err
            else:
                ended = await child.ended()
                assert ended.code == 1
                assert "Traceback" not in ended.err
                assert f"roles apply --{needs} {urlsplit(urls[duty]).username}" in ended.err, ended.err


async def test_each_command_that_takes_a_duty_is_tried() -> None:
    asked = {call.split()[0] for call in (*CALLS, *PROCESSES, "adopt")}
    # The console says it on a page: tests/integration/console.
    assert {name for name, duty in COMMANDS.items() if duty} - asked == {"console"}

"""The chapters of the story that is swept: receive, park, drain, read again, relay, rebuild, purge, erase, decide."""

from __future__ import annotations

import json

import msgspec
from tests.support import inspection
from tests.support.erasing import erase
from tests.support.retention import age, purge
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced
from tests.support.stub_provider import answer, execute_then_reset
from tests.support.sweep import Chapter, Scene
from tests.support.sweep_app import POISON, revised
from tests.support.waiting import eventually

from projectionist.core.operator import Act

ME = Act("ann", "a sweep")
WHY = ("--reason", "a sweep")


async def story(scene: Scene) -> None:
    """Plain orders, a gap that fills, a poison, a repetition, what cannot be read, and what is nobody's."""
    live = scene.live
    await live.migrate(scene.classes.Orders, scene.classes.Spend)
    for version in (4, 3, 2):
        await live.publish(OrderNoted(f"n{version}"), "o1", version, id=f"o1:{version}")
    for version, event in enumerate([OrderPlaced("bob", 2), OrderNoted(POISON), OrderPaid()], 1):
        await live.publish(event, "o2", version, id=f"o2:{version}")
    for aggregate in ("o3", "o4"):
        await live.publish(OrderPlaced("ann", 3), aggregate, 1, id=f"{aggregate}:1")
        await live.publish(OrderPaid(), aggregate, 2, id=f"{aggregate}:2")
        await live.publish(OrderPaid(), aggregate, 3, id=f"{aggregate}:3")
    await live.publish(OrderPaid(), "o3", 2, id="o3:2")
    await live.publish_raw(b"torn", {"ce-id": "torn"}, "o5")
    await live.publish(OrderPlaced("eve", 9), "c1", 1, id="c1:1", place="customer")
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="o1:1")
    await live.publish(OrderPaid(), "o1", 5, id="o1:5")


async def settled_story(scene: Scene) -> None:
    """The same, and all of it settled."""
    await story(scene)
    await scene.settle()


async def parked_run(scene: Scene) -> None:
    """A run is parked and settled; then what it waits for comes."""
    live = scene.live
    await live.migrate(scene.classes.Orders, scene.classes.Spend)
    for version in (5, 4, 3, 2):
        await live.publish(OrderPaid() if version == 5 else OrderNoted(f"n{version}"), "o1", version)
    await scene.settle()
    await live.publish(OrderPlaced("ann", 1), "o1", 1)


async def quarantined(scene: Scene) -> None:
    """What had no version was put aside, and has one now: it is to be read again."""
    live = scene.live
    await live.migrate(scene.classes.Orders, scene.classes.Spend)
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="o1:1")
    seq = await live.publish(OrderPaid(), "o1", None, id="o1:2")
    await live.publish(OrderPaid(), "o1", 3, id="o1:3")
    await scene.settle()
    for cls in (scene.classes.Orders, scene.classes.Spend):
        async with live.quarantine(cls) as verbs:
            await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "2"})


async def receipts(scene: Scene) -> None:
    """Paid orders whose receipts nobody has sent yet, at a provider that stumbles."""
    live = scene.live
    await live.migrate(scene.classes.Orders, scene.classes.Spend)
    for aggregate in ("o1", "o2", "o3"):
        await live.publish(OrderPlaced("ann", 3), aggregate, 1, id=f"{aggregate}:1")
        for version in (2, 3):
            await live.publish(OrderPaid(), aggregate, version, id=f"{aggregate}:{version}")
    await scene.settle()
    scene.stub.plan(execute_then_reset, answer(503))


async def revision(scene: Scene) -> None:
    """All is settled, and a release of Orders with a raised revision is migrated."""
    await settled_story(scene)
    scene.classes.Orders = revised(scene.live.stream)
    await scene.live.migrate(scene.classes.Orders)


async def old_story(scene: Scene) -> None:
    """All of it was settled long ago."""
    await settled_story(scene)
    await age(scene.live, 31)


async def damaged(scene: Scene) -> None:
    """Somebody has written into a row."""
    await settled_story(scene)
    await scene.live.pool.execute("update projectionist.orders__g1 set cents = 1000 where order_id = 'o3'")


async def lost(scene: Scene) -> None:
    """A version is missing, and never comes."""
    await settled_story(scene)
    await scene.live.publish(OrderPaid(), "o3", 5, id="o3:5")
    async with scene.live.running(scene.classes.Orders, scene.classes.Spend):
        await inspection.reaches(
            2, inspection.count, scene.live, "positions", aggregate="order/o3", finding="lost"
        )


async def sent_story(scene: Scene) -> None:
    """All of it is settled and sent."""
    await settled_story(scene)
    await scene.relay()
    (scene.folder / "archive").mkdir()


async def correction(scene: Scene) -> None:
    """The poison's correction lies in a file."""
    await settled_story(scene)
    (scene.folder / "fixed.json").write_text(json.dumps({"text": "fine"}))


async def nothing(scene: Scene) -> None:
    """An empty database."""


async def all_settled(scene: Scene) -> None:
    """Nothing is unread, unacked or due."""
    await scene.live.settled(scene.classes.Orders, scene.classes.Spend)


async def read_again(scene: Scene) -> None:
    """What was put aside is an event, and what waited for it has drained."""
    await inspection.reaches(2, inspection.count, scene.live, "positions", version=3)
    await all_settled(scene)


async def rebuilt(scene: Scene) -> None:
    """The next generation is shown."""
    await inspection.reaches(2, scene.builders.generation, scene.classes.Orders)
    await all_settled(scene)


async def all_sent(scene: Scene) -> None:
    """Every receipt is sent; what is staged is left to the relay."""

    async def done() -> bool:
        states = await scene.outbox.states()
        return set(states) == {"sent"} and states.total() == 6

    await eventually(done)


async def settle(scene: Scene) -> None:
    """Somebody else settles the rest."""
    await scene.settle()


async def read_the_rest(scene: Scene) -> None:
    """Somebody else reads it again."""
    async with scene.running():
        await read_again(scene)


async def relay(scene: Scene) -> None:
    """Another relay sends the rest."""
    await scene.relay()


async def rebuild(scene: Scene) -> None:
    """Somebody else ends the build, or begins another."""
    await scene.builders.moments_pass()
    await scene.builders.rebuild(scene.classes.Orders)
    await scene.settle()


async def revise(scene: Scene) -> None:
    """Another process of the new release builds it."""
    await scene.builders.moments_pass()
    await scene.settle()


async def purge_again(scene: Scene) -> None:
    """The next purge."""
    await purge(
        scene.live,
        *(scene.classes.Orders, scene.classes.Spend),
        archive="files",
        archive_folder=str(scene.folder / "archive"),
    )


async def erase_again(scene: Scene) -> None:
    """The next erase ends it."""
    retention = msgspec.structs.replace(
        scene.live.settings.retention, archive_folder=str(scene.folder / "archive")
    )
    settings = msgspec.structs.replace(scene.live.settings, retention=retention)
    done = await erase(
        scene.live, *(scene.classes.Orders, scene.classes.Spend), aggregate="order/o4", settings=settings
    )
    assert done.undone == []
    await scene.settle()


async def _head(scene: Scene, aggregate: str) -> str:
    return (await scene.live.head(scene.classes.Orders, aggregate))[1]


async def skip_again(scene: Scene) -> None:
    """Where it has not been skipped, it is now."""
    if await _head(scene, "order/o2") == "waiting":
        async with scene.live.verbs(scene.classes.Orders) as verbs:
            await verbs.skip("order/o2", ME)
    await scene.settle()
    assert await _head(scene, "order/o2") == "clear"


async def edit_again(scene: Scene) -> None:
    """Where it has not been corrected, it is now."""
    if await _head(scene, "order/o2") == "waiting":
        async with scene.live.verbs(scene.classes.Orders) as verbs:
            await verbs.edit(("shop", "o2:2"), b'{"text": "fine"}', b"digest", ME)
    await scene.settle()
    assert await _head(scene, "order/o2") == "clear"


async def accept_again(scene: Scene) -> None:
    """Where the gap has not been accepted, it is now."""
    if await _head(scene, "order/o3") not in ("draining", "clear"):
        async with scene.live.verbs(scene.classes.Orders) as verbs:
            await verbs.accept_gap("order/o3", 4, 4, ME)
    await scene.settle()
    assert await _head(scene, "order/o3") == "clear"


async def recompute_again(scene: Scene) -> None:
    """Somebody else recomputes the row."""
    await scene.builders.mend(scene.classes.Orders, "o3")


async def discard_again(scene: Scene) -> None:
    """Where it has not been discarded, it is now."""
    for cls in (scene.classes.Orders, scene.classes.Spend):
        entries = await scene.live.fetch(
            "select incarnation, seq from {s}.quarantine where state = 'quarantined' and consumer = $1",
            await inspection.consumer_number(scene.live, cls.__name__),
        )
        async with scene.live.quarantine(cls) as verbs:
            for place in entries:
                await verbs.discard((place[0], place[1]), ME)
    await scene.settle()


async def migrate_again(scene: Scene) -> None:
    """Somebody else migrates, and the story is lived through."""
    await settled_story(scene)


CHAPTERS = (
    Chapter(
        name="receive", prepare=story, command=("run", "APP"), until=all_settled, sleeps=True, finish=settle
    ),
    Chapter(
        name="store first",
        prepare=story,
        command=("run", "APP"),
        until=all_settled,
        sleeps=True,
        finish=settle,
        settings={"consumer_defaults__ack": "after-store", "telemetry__allow_unmonitored": "true"},
    ),
    Chapter(
        name="drain",
        prepare=parked_run,
        command=("run", "APP"),
        until=all_settled,
        sleeps=True,
        finish=settle,
        settings={"consumer_defaults__drain_batch_size": "1"},
    ),
    Chapter(
        name="read again",
        prepare=quarantined,
        command=("run", "APP"),
        until=read_again,
        sleeps=True,
        finish=read_the_rest,
    ),
    Chapter(
        name="relay",
        prepare=receipts,
        command=("relay", "APP"),
        until=all_sent,
        sleeps=True,
        finish=relay,
        sends=True,
    ),
    Chapter(name="rebuild", prepare=settled_story, command=("rebuild", "APP", "Orders"), finish=rebuild),
    Chapter(
        name="revision", prepare=revision, command=("run", "APP"), until=rebuilt, finish=revise, revision=2
    ),
    Chapter(name="purge", prepare=old_story, command=("purge", "APP"), finish=purge_again),
    Chapter(
        name="erase",
        prepare=sent_story,
        command=("erase", "APP", "--aggregate", "order/o4", *WHY),
        finish=erase_again,
    ),
    Chapter(
        name="skip",
        prepare=settled_story,
        command=("parked", "skip", "o2:2", "--consumer", "Orders", *WHY),
        finish=skip_again,
    ),
    Chapter(
        name="correct",
        prepare=correction,
        command=("parked", "edit", "o2:2", "--consumer", "Orders", "--data", "fixed.json", *WHY),
        finish=edit_again,
    ),
    Chapter(
        name="accept a gap",
        prepare=lost,
        command=("parked", "accept-gap", "--aggregate", "order/o3", "--consumer", "Orders", *WHY),
        finish=accept_again,
    ),
    Chapter(
        name="discard",
        prepare=settled_story,
        command=("quarantine", "discard", "14", "--every-consumer", *WHY),
        finish=discard_again,
    ),
    Chapter(
        name="recompute",
        prepare=damaged,
        command=("recompute", "APP", "Orders", "o3", *WHY),
        finish=recompute_again,
    ),
    Chapter(name="migrate", prepare=nothing, command=("migrate", "APP"), finish=migrate_again),
)
"""Every process that holds something which may be lost, done twice or left half done."""

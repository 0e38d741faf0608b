"""Acts on the generations of a read model: rebuild, accept what differs, give a build up, roll back, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from projectionist.console.access.sessions import Role
from projectionist.console.acts.verb import Answer, Given, Option, Question, Verb, needed, number
from projectionist.console.build_condition import are, begun, made_of, waits_for
from projectionist.console.console_database import broker
from projectionist.console.pages import TO_SAY, command_line, count, duration, size
from projectionist.core.operator import NotThere
from projectionist.runner.database.queries import record_act
from projectionist.runner.operations.long_act import long_act
from projectionist.runner.operations.operation import OperationKind
from projectionist.runner.read_models.generations import drop, generations
from projectionist.runner.rebuild.build_lease import owner
from projectionist.runner.rebuild.open_builds import open_builds
from projectionist.runner.rebuild.plan import plan
from projectionist.runner.rebuild.rebuild import Options, Rebuild, give_up
from projectionist.runner.rebuild.registration_check import registered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.console.background_work import BackgroundWork
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.read_models.generations import Generation
    from projectionist.runner.rebuild.compare import Compared
    from projectionist.runner.rebuild.open_builds import BuildReport
    from projectionist.runner.rebuild.plan import Plan

KIND = "rebuild"
BOX = "view."
"""Names the box of a view in the address of an act on a set."""
MEASURED_S = 1.0
"""For so long the speed of a rebuild is measured: whoever asks for its page waits for it."""
STOPPING = "It was told to stop, and has not ended yet: this page says when it has."
RESTART = Option(
    name="restart", value="yes", label="Begin anew", says="Instead of going on with the build that is open."
)
SLOW_LIVE = Option(
    name="slow_live",
    value="yes",
    label="Keep live batches waiting now and then",
    says="Should they be as fast as it catches up.",
)


def rebuild_path(name: str) -> str:
    """Return where the page of the generations of a consumer is, or of a view of a set."""
    return f"/rebuild?{urlencode({'consumer': name})}"


async def _free(db: ConsoleDatabase, given: Given) -> tuple[ConsumerDefinition, list[BuildReport]]:
    """Return whose rows it is about, and the build of it that is open; NotThere while somebody builds them."""
    consumer = db.consumer(needed(given, "consumer"))
    opened = await open_builds(db.queries, consumer.name)
    if opened and opened[0].is_built:
        raise NotThere(
            f"{consumer.name}: {opened[0].owner} is building {made_of(consumer.name, opened)}",
            remedy="Wait for it, or end that process",
        )
    return consumer, opened


def _built(consumer: ConsumerDefinition, opened: Sequence[BuildReport]) -> list[Definition] | None:
    """Return of a set the views of the build that is open; None: all, or a consumer that is its only view."""
    built = {one.view for one in opened}
    return [view for view in consumer.views if view.is_member and view.name in built] or None


def _named(consumer: ConsumerDefinition, given: Given) -> list[Definition]:
    """Return the views of a set that an address names: by the boxes that were ticked, or as the one its page is of."""
    return [
        view
        for view in consumer.views
        if view.is_member
        and (f"{BOX}{view.name}" in given or given["consumer"] in {view.name, view.full_name})
    ]


def _names(consumer: ConsumerDefinition, named: Sequence[Definition] | None) -> list[str]:
    return [consumer.name] if named is None else [view.full_name for view in named]


def _back(given: Given) -> str:
    return rebuild_path(given["consumer"])


async def _ask_rebuild(db: ConsoleDatabase, given: Given) -> Question:
    consumer, opened = await _free(db, given)
    named = _named(consumer, given) or _built(consumer, opened)
    names = _names(consumer, named)
    async with db.broker() as client:
        found = await plan(db.queries, consumer, db.settings, client, named, measured_s=MEASURED_S)
    told, ones = ", ".join(names), "one" if len(found.views) == 1 else "ones"
    if found.refused:
        raise NotThere(f"a rebuild of {told} is refused: {found.refused}")
    goes_on = f" It goes on with what is open: {found.open_build}." if found.open_build else ""
    joins = "".join(f" {one.view} joins: batches write it from then on." for one in found.views if one.joins)
    made = f"{made_of(consumer.name, found.views)} {are(found.views)} made beside the live {ones}"
    return Question(
        title=f"Rebuild {told}",
        fact=begun(f"{made}, from {count(found.events)} events."),
        says="Readers and batches go on meanwhile. It is compared, and swapped in if it is the same, or if other "
        f"code made the live rows; otherwise it waits for a decision. No effect is made.{joins}{goes_on}",
        label=f"Rebuild {told}",
        command=_command(db, "rebuild", *names),
        back=_back(given),
        options=[RESTART, SLOW_LIVE] if found.open_build else [SLOW_LIVE],
        facts=_costs(found),
    )


def _costs(found: Plan) -> dict[str, object]:
    takes = f"about {duration(found.eta_s)} at {count(found.rate)} a second" if found.rate else None
    kept = f"{found.kept} older, {size(found.kept_bytes)}" if found.kept else None
    return {
        "takes": takes,
        "disk": f"{size(found.disk_bytes)} beside the live generation",
        "locks": found.locks,
        "aggregates": f"{count(found.aggregates)}, {count(found.held)} of them held up and left so",
        "decisions repeated": count(found.decisions) if found.decisions else None,
        "kept generations": kept,
        "changes": "; ".join(found.changes) or None,
    }


def _command(db: ConsoleDatabase, verb: str, *more: object) -> str:
    words = verb.split()
    return command_line(*words, db.app_name, *more, "--reason", TO_SAY)


def _begin(
    db: ConsoleDatabase,
    consumer: ConsumerDefinition,
    views: Sequence[Definition] | None,
    options: Options,
    act: Act,
) -> None:
    settings, who = db.settings, owner()

    async def build(progress: Progress) -> object:
        async with broker(settings) as client:
            about = {"consumer": ", ".join(_names(consumer, views))}
            given = (settings.postgres, OperationKind.REBUILD, about, act, who, progress)
            async with long_act(*given) as told:
                building = (consumer, settings, client, told, options)
                return await Rebuild(*building, views=views, act=act, who=who).run()

    db.works.begin(KIND, consumer.name, act, build, who)


async def _rebuild(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    consumer, opened = await _free(db, given)
    named = _named(consumer, given) or _built(consumer, opened)
    options = Options(restart="restart" in given, slow_live="slow_live" in given)
    _begin(db, consumer, named, options, act)
    return Answer(f"The rebuild of {', '.join(_names(consumer, named))} has begun.", _back(given))


async def _differing(
    db: ConsoleDatabase, given: Given
) -> tuple[ConsumerDefinition, Compared, list[BuildReport]]:
    """Return whose rows differ, which, and the build that waits; NotThere where none was compared."""
    consumer, opened = await _free(db, given)
    compared = waits_for(next(iter(opened), None), db.works.of(KIND, consumer.name))
    if compared is None:
        raise NotThere(
            f"no build of {consumer.name} waits for a decision that this console knows of",
            remedy="Rebuild: it goes on, compares again, and says what differs",
        )
    return consumer, compared, opened


async def _ask_accept(db: ConsoleDatabase, given: Given) -> Question:
    consumer, compared, opened = await _differing(db, given)
    differ, made = len(compared.differences), made_of(consumer.name, opened)
    rows = "1 row becomes" if differ == 1 and not compared.more else f"{count(differ)} rows become"
    rows = f"More than {rows}" if compared.more else rows
    of = "" if opened[0].view != consumer.name else f" of {consumer.name}"
    names = _names(consumer, _built(consumer, opened))
    return Question(
        title=f"Swap in {made}{of}",
        fact=f"{rows} what the events make of them, and {made} {are(opened)} live.",
        says="What is live is kept for a while, to go back to. What differs is compared once more before: "
        "the page says how many rows it was.",
        label="Swap and accept what differs",
        command=_command(db, "rebuild", *names, "--accept-differences"),
        back=_back(given),
        matches=differ,
        about=opened[0].owner,
    )


async def _accept(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    consumer, _, opened = await _differing(db, given)
    _begin(db, consumer, _built(consumer, opened), Options(accept_differences=True), act)
    made = made_of(consumer.name, opened)
    return Answer(begun(f"{made} {are(opened)} being swapped in."), _back(given))


async def _ask_abort(db: ConsoleDatabase, given: Given) -> Question:
    consumer, opened = await _free(db, given)
    if not opened:
        raise NotThere(f"no build of {consumer.name} is open", remedy="Look at its generations")
    made = made_of(consumer.name, opened)
    of = "" if opened[0].view != consumer.name else f" of {consumer.name}"
    return Question(
        title=f"Give up {made}{of}",
        fact="The build that is open ends, and its tables go. What is live serves as before.",
        says="What was built is lost: a rebuild begins anew."
        if opened[0].kind == "rebuild"
        else "The generation to which it went back stays kept.",
        label=f"Give up {made}",
        command=_command(db, "rebuild", consumer.name, "--abort"),
        back=_back(given),
        about=opened[0].started.isoformat(),
    )


async def _abort(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    consumer, opened = await _free(db, given)
    ended = await give_up(consumer, db.settings, act)
    db.works.forget(KIND, consumer.name)
    gone = [one for one in opened if one.view in ended]
    was = "is" if len(gone) == 1 else "are"
    told = begun(f"{made_of(consumer.name, gone)} {was} given up.") if gone else "No build was open."
    return Answer(told, _back(given))


async def _running(db: ConsoleDatabase, given: Given) -> BackgroundWork:
    name = db.consumer(needed(given, "consumer")).name
    work = db.works.of(KIND, name)
    if work is None or not work.is_running:
        raise NotThere(f"this console builds nothing of {name}", remedy="Who builds it is told on its page")
    return work


async def _ask_stop(db: ConsoleDatabase, given: Given) -> Question:
    work = await _running(db, given)
    return Question(
        title=f"Stop the rebuild of {work.consumer}",
        fact="The builder of this console ends where it stands; the build stays open.",
        says="Whoever rebuilds next goes on from there, here or by the command line. The live generation serves.",
        label="Stop the rebuild",
        command="Ctrl-C, where `projectionist rebuild` runs",
        back=_back(given),
    )


async def _stop(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    work = await _running(db, given)
    row = (await db.queries.rows("select_consumer_views", work.consumer))[0]
    await record_act(db.queries, row["number"], "stop-rebuild", "the builder of a console", act)
    stopped = await work.stop()
    told = "It has stopped, and can be gone on with." if stopped else STOPPING
    return Answer(told, _back(given))


async def _kept(db: ConsoleDatabase, given: Given) -> tuple[Definition, int, Generation]:
    """Return whose generation it is, the view's number, and the generation; NotThere unless it is kept."""
    await _free(db, given)
    definition, wanted = db.definition(given["consumer"]), number(given, "generation")
    row = await registered(db.queries, definition, going_back=True)
    for one in await generations(db.queries, row["view"]):
        if one.generation == wanted and one.state == "kept":
            return definition, row["view"], one
    raise NotThere(
        f"generation {wanted} of {definition.full_name} is not kept", remedy="Look at what is kept now"
    )


async def _ask_rollback(db: ConsoleDatabase, given: Given) -> Question:
    definition, _, one = await _kept(db, given)
    return Question(
        title=f"Roll {definition.full_name} back to generation {one.generation}",
        fact=f"Generation {one.generation} is caught up with what was applied since, and swapped in.",
        says="It takes the code by which it was run: that has to be this console's. The live one is kept for a while.",
        label=f"Roll back to generation {one.generation}",
        command=_command(db, "generations rollback", definition.full_name, one.generation),
        back=_back(given),
    )


async def _rollback(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, _, one = await _kept(db, given)
    _begin(db, db.consumer(definition.name), [definition], Options(back_to=one.generation), act)
    return Answer(f"The way back to generation {one.generation} has begun.", _back(given))


async def _ask_drop(db: ConsoleDatabase, given: Given) -> Question:
    definition, _, one = await _kept(db, given)
    return Question(
        title=f"Drop generation {one.generation} of {definition.full_name}",
        fact=f"The tables of generation {one.generation} go: {', '.join(one.tables)}.",
        says="There is no way back to it then. It would go by itself when its time is over.",
        label=f"Drop generation {one.generation}",
        command=_command(db, "generations drop", definition.full_name, one.generation),
        back=_back(given),
    )


async def _drop(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, view, one = await _kept(db, given)
    row = await registered(db.queries, definition, going_back=True)
    await drop(db.queries, view, one.generation, consumer=row["number"], act=act)
    return Answer(f"Generation {one.generation} is dropped.", _back(given))


VERBS = {
    "rebuild": Verb(Role.OPERATE, _ask_rebuild, _rebuild),
    "rebuild-accept": Verb(Role.DESTROY, _ask_accept, _accept),
    "rebuild-stop": Verb(Role.OPERATE, _ask_stop, _stop),
    "rebuild-abort": Verb(Role.OPERATE, _ask_abort, _abort),
    "generation-rollback": Verb(Role.OPERATE, _ask_rollback, _rollback),
    "generation-drop": Verb(Role.DESTROY, _ask_drop, _drop),
}

"""Acts on the generations of a read model: rebuild, accept what differs, give a build up, roll back, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from projectionist.console.access.sessions import Role
from projectionist.console.acts.verb import Answer, Given, Option, Question, Verb, needed, number
from projectionist.console.build_condition import waits_for
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
    from projectionist.console.background_work import BackgroundWork
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.core.operator import Act
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.read_models.generations import Generation
    from projectionist.runner.rebuild.compare import Compared
    from projectionist.runner.rebuild.open_builds import BuildReport
    from projectionist.runner.rebuild.plan import Plan

KIND = "rebuild"
MEASURED_S = 1.0
STOPPING = "It was told to stop, and has not ended yet: this page says when it has."
"""For so long the speed of a rebuild is measured: whoever asks for its page waits for it."""
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
    """Return where the page of a consumer's generations is."""
    return f"/rebuild?{urlencode({'consumer': name})}"


async def _free(db: ConsoleDatabase, given: Given) -> Definition:
    """Return whose rows it is about; NotThere while somebody builds them."""
    definition = db.definition(needed(given, "consumer"))
    built = [one for one in await open_builds(db.queries, definition.name) if one.is_built]
    if built:
        raise NotThere(
            f"{built[0].owner} is building generation {built[0].generation} of {definition.name}",
            remedy="Wait for it, or end that process",
        )
    return definition


async def _ask_rebuild(db: ConsoleDatabase, given: Given) -> Question:
    definition = await _free(db, given)
    async with db.broker() as client:
        found = await plan(db.queries, definition, db.settings, client, measured_s=MEASURED_S)
    if found.refused:
        raise NotThere(f"a rebuild of {definition.name} is refused: {found.refused}")
    goes_on = f" It goes on with what is open: {found.open_build}." if found.open_build else ""
    return Question(
        title=f"Rebuild {definition.name}",
        fact=f"Generation {found.views[0].generation} is made beside the live one, from {count(found.events)} events.",
        says="Readers and batches go on meanwhile. It is compared, and swapped in if it is the same, or if other "
        f"code made the live rows; otherwise it waits for a decision. No effect is made.{goes_on}",
        label=f"Rebuild {definition.name}",
        command=_command(db, "rebuild", definition.name),
        back=rebuild_path(definition.name),
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


def _begin(db: ConsoleDatabase, definition: Definition, options: Options, act: Act) -> None:
    settings, who = db.settings, owner()

    async def build(progress: Progress) -> object:
        async with broker(settings) as client:
            given = (settings.postgres, OperationKind.REBUILD, definition.name, act, who, progress)
            async with long_act(*given) as told:
                return await Rebuild(definition, settings, client, told, options, act=act, who=who).run()

    db.works.begin(KIND, definition.name, act, build, who)


async def _rebuild(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition = await _free(db, given)
    options = Options(restart="restart" in given, slow_live="slow_live" in given)
    _begin(db, definition, options, act)
    return Answer(f"The rebuild of {definition.name} has begun.", rebuild_path(definition.name))


async def _differing(db: ConsoleDatabase, given: Given) -> tuple[Definition, Compared, BuildReport]:
    """Return whose rows differ, which, and the build that waits; NotThere where none was compared."""
    definition = await _free(db, given)
    opened = next(iter(await open_builds(db.queries, definition.name)), None)
    compared = waits_for(opened, db.works.of(KIND, definition.name))
    if opened is None or compared is None:
        raise NotThere(
            f"no build of {definition.name} waits for a decision that this console knows of",
            remedy="Rebuild: it goes on, compares again, and says what differs",
        )
    return definition, compared, opened


async def _ask_accept(db: ConsoleDatabase, given: Given) -> Question:
    definition, compared, opened = await _differing(db, given)
    differ, generation = len(compared.differences), opened.generation
    rows = "1 row becomes" if differ == 1 and not compared.more else f"{count(differ)} rows become"
    rows = f"More than {rows}" if compared.more else rows
    return Question(
        title=f"Swap in generation {generation} of {definition.name}",
        fact=f"{rows} what the events make of them, and generation {generation} is live.",
        says="The live generation is kept for a while, to go back to. What differs is compared once more before: "
        "the page says how many rows it was.",
        label="Swap and accept what differs",
        command=_command(db, "rebuild", definition.name, "--accept-differences"),
        back=rebuild_path(definition.name),
        matches=differ,
        about=opened.owner,
    )


async def _accept(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, _, opened = await _differing(db, given)
    _begin(db, definition, Options(accept_differences=True), act)
    return Answer(f"Generation {opened.generation} is being swapped in.", rebuild_path(definition.name))


async def _ask_abort(db: ConsoleDatabase, given: Given) -> Question:
    definition = await _free(db, given)
    opened = await open_builds(db.queries, definition.name)
    if not opened:
        raise NotThere(f"no build of {definition.name} is open", remedy="Look at its generations")
    return Question(
        title=f"Give up generation {opened[0].generation} of {definition.name}",
        fact="The build that is open ends, and its tables go. The live generation serves as before.",
        says="What was built is lost: a rebuild begins anew."
        if opened[0].kind == "rebuild"
        else "The generation to which it went back stays kept.",
        label=f"Give up generation {opened[0].generation}",
        command=_command(db, "rebuild", definition.name, "--abort"),
        back=rebuild_path(definition.name),
        about=opened[0].started.isoformat(),
    )


async def _abort(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition = await _free(db, given)
    ended = await give_up(definition, db.settings, act)
    db.works.forget(KIND, definition.name)
    given_up = ", ".join(f"Generation {generation} is given up." for generation in ended.values())
    told = given_up or "No build was open."
    return Answer(told, rebuild_path(definition.name))


async def _running(db: ConsoleDatabase, given: Given) -> BackgroundWork:
    definition = db.definition(needed(given, "consumer"))
    work = db.works.of(KIND, definition.name)
    if work is None or not work.is_running:
        raise NotThere(
            f"this console builds nothing of {definition.name}", remedy="Who builds it is told on its page"
        )
    return work


async def _ask_stop(db: ConsoleDatabase, given: Given) -> Question:
    work = await _running(db, given)
    return Question(
        title=f"Stop the rebuild of {work.consumer}",
        fact="The builder of this console ends where it stands; the build stays open.",
        says="Whoever rebuilds next goes on from there, here or by the command line. The live generation serves.",
        label="Stop the rebuild",
        command="Ctrl-C, where `projectionist rebuild` runs",
        back=rebuild_path(work.consumer),
    )


async def _stop(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    work = await _running(db, given)
    row = await registered(db.queries, db.definition(work.consumer), going_back=True)
    await record_act(db.queries, row["number"], "stop-rebuild", "the builder of a console", act)
    stopped = await work.stop()
    told = "It has stopped, and can be gone on with." if stopped else STOPPING
    return Answer(told, rebuild_path(work.consumer))


async def _kept(db: ConsoleDatabase, given: Given) -> tuple[Definition, int, Generation]:
    """Return whose generation it is, the view's number, and the generation; NotThere unless it is kept."""
    definition, wanted = await _free(db, given), number(given, "generation")
    row = await registered(db.queries, definition, going_back=True)
    for one in await generations(db.queries, row["view"]):
        if one.generation == wanted and one.state == "kept":
            return definition, row["view"], one
    raise NotThere(f"generation {wanted} of {definition.name} is not kept", remedy="Look at what is kept now")


async def _ask_rollback(db: ConsoleDatabase, given: Given) -> Question:
    definition, _, one = await _kept(db, given)
    return Question(
        title=f"Roll {definition.name} back to generation {one.generation}",
        fact=f"Generation {one.generation} is caught up with what was applied since, and swapped in.",
        says="It takes the code by which it was run: that has to be this console's. The live one is kept for a while.",
        label=f"Roll back to generation {one.generation}",
        command=_command(db, "generations rollback", definition.name, one.generation),
        back=rebuild_path(definition.name),
    )


async def _rollback(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, _, one = await _kept(db, given)
    _begin(db, definition, Options(back_to=one.generation), act)
    return Answer(f"The way back to generation {one.generation} has begun.", rebuild_path(definition.name))


async def _ask_drop(db: ConsoleDatabase, given: Given) -> Question:
    definition, _, one = await _kept(db, given)
    return Question(
        title=f"Drop generation {one.generation} of {definition.name}",
        fact=f"The tables of generation {one.generation} go: {', '.join(one.tables)}.",
        says="There is no way back to it then. It would go by itself when its time is over.",
        label=f"Drop generation {one.generation}",
        command=_command(db, "generations drop", definition.name, one.generation),
        back=rebuild_path(definition.name),
    )


async def _drop(db: ConsoleDatabase, given: Given, act: Act) -> Answer:
    definition, view, one = await _kept(db, given)
    row = await registered(db.queries, definition, going_back=True)
    await drop(db.queries, view, one.generation, consumer=row["number"], act=act)
    return Answer(f"Generation {one.generation} is dropped.", rebuild_path(definition.name))


VERBS = {
    "rebuild": Verb(Role.OPERATE, _ask_rebuild, _rebuild),
    "rebuild-accept": Verb(Role.DESTROY, _ask_accept, _accept),
    "rebuild-stop": Verb(Role.OPERATE, _ask_stop, _stop),
    "rebuild-abort": Verb(Role.OPERATE, _ask_abort, _abort),
    "generation-rollback": Verb(Role.OPERATE, _ask_rollback, _rollback),
    "generation-drop": Verb(Role.DESTROY, _ask_drop, _drop),
}

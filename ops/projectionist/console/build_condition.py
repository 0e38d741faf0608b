"""How the generations of a read model are: who is at work on them, and must somebody decide? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from projectionist.console.pages import count, duration
from projectionist.runner.rebuild.build_lease import AlreadyBuilding
from projectionist.runner.rebuild.compare import Differs
from projectionist.runner.rebuild.rebuild import Rebuilt

if TYPE_CHECKING:
    from projectionist.console.background_work import BackgroundWork
    from projectionist.runner.rebuild.compare import Compared
    from projectionist.runner.rebuild.open_builds import BuildReport


class BuildCondition(msgspec.Struct, frozen=True):
    """A mark, a fact, and what follows from it."""

    tone: str
    fact: str
    says: str = ""
    waits: bool = False
    """Whether a build that is open waits to be accepted, gone on with or given up."""


class Phase(msgspec.Struct, frozen=True):
    """A step of a build."""

    name: str
    tone: str
    says: str = ""


class ViewGeneration(Protocol):
    """A generation that is made of a view, was, or would be."""

    @property
    def view(self) -> str:
        """Return the view's name."""

    @property
    def generation(self) -> int:
        """Return its number."""


def made_of(consumer: str, views: Iterable[ViewGeneration]) -> str:
    """Return these generations as they are told: of a set each with its view."""
    told = [
        f"generation {one.generation}" + ("" if one.view == consumer else f" of {one.view}") for one in views
    ]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)


def begun(sentence: str) -> str:
    """Return a sentence with its first letter as sentences begin."""
    return sentence[:1].upper() + sentence[1:]


def are(views: Sequence[object]) -> str:
    """Return the verb for so many generations."""
    return "is" if len(views) == 1 else "are"


def build_condition(
    builds: Sequence[BuildReport], work: BackgroundWork | None, *, raised: bool
) -> BuildCondition:
    """Return how it is: what waits for a decision before what goes on.

    `builds`: of the build that is open what it makes of each view; `raised`: the code's revision is above the live one.
    """
    running = work is not None and work.is_running
    if not builds:
        return _closed(work, raised=raised)
    opened, made = builds[0], made_of(builds[0].consumer, builds)
    if opened.is_built or running:
        return BuildCondition("busy", begun(f"{made} {are(builds)} being built."), _far(opened))
    if not opened.is_marked:
        says = "Its tables could not be removed yet: give it up once more."
        was = "was" if len(builds) == 1 else "were"
        return BuildCondition("act", begun(f"{made} {was} given up."), says, waits=True)
    if (compared := waits_for(opened, work)) is not None:
        return _differs(compared)
    problem = "" if work is None or _is_past(work) else work.problem
    since = "" if opened.told is None else f"since {opened.told:%Y-%m-%d %H:%M:%S} UTC"
    says = problem or "Its process has ended. Go on with it, or give it up."
    return BuildCondition("act", f"Nobody builds {made} {since}".rstrip() + ".", says, waits=True)


def waits_for(opened: BuildReport | None, work: BackgroundWork | None) -> Compared | None:
    """Return what differs where the build that is open waits for somebody to accept that; None where this console's
    comparison was another build's, or others have built on since."""
    if opened is None or work is None or not isinstance(work.failure, Differs):
        return None
    return work.failure.compared if work.owner == opened.owner else None


def _is_past(work: BackgroundWork) -> bool:
    """Return whether it failed of what somebody else has decided since, or has done instead."""
    return isinstance(work.failure, Differs | AlreadyBuilding)


def _closed(work: BackgroundWork | None, *, raised: bool) -> BuildCondition:
    if work is not None and work.is_running:
        return BuildCondition("busy", "A build is being opened.")
    if work is not None and work.problem and not _is_past(work):
        return BuildCondition("act", "The last build has failed.", work.problem)
    if raised:
        says = "Live goes on with the rows there are, or waits: a rebuild makes those of this code."
        return BuildCondition("act", "This code has a higher revision than the live generation.", says)
    if work is not None and isinstance(work.result, Rebuilt):
        return _done(work.result)
    return BuildCondition("ok", "Nobody has to act.", "No build is open.")


def _done(done: Rebuilt) -> BuildCondition:
    compared = [view.compared for view in done.views]
    differ = sum(len(one.differences) for one in compared)
    told = f"{count(done.events + done.caught_up)} events, {count(sum(one.rows for one in compared))} rows"
    rows = "1 row differs" if differ == 1 else f"{count(differ)} rows differ"
    more = "More than " if any(one.more for one in compared) else ""
    before = f" {more}{rows} from before." if differ else ""
    fact = begun(f"{made_of(done.consumer, done.views)} {are(done.views)} live.")
    return BuildCondition("ok", fact, f"{told}, {duration(done.seconds)}.{before}")


def _differs(compared: Compared) -> BuildCondition:
    number = len(compared.differences)
    rows = "1 row differs" if number == 1 else f"{count(number)} rows differ"
    fact = f"The build waits for a decision: {'more than ' if compared.more else ''}{rows}."
    says = "The same code made both generations, so one of the two is wrong: edited by hand, perhaps."
    return BuildCondition("act", fact, says, waits=True)


def _far(opened: BuildReport) -> str:
    share = "" if opened.share is None else f" {opened.share:.0%}"
    left = "" if opened.left_s is None else f", about {duration(opened.left_s)} left"
    return f"{opened.doing or opened.phase}{share}{left}; by {opened.owner}."


def phases(opened: BuildReport, condition: BuildCondition) -> list[Phase]:
    """Return the steps of a build, those behind the one it is at as later."""
    names = {"open": "Open", "bulk": "Bulk", "catch_up": "Catch up and compare", "swap": "Swap"}
    if opened.kind == "rollback":
        del names["bulk"]
    at = list(names).index(opened.phase)
    here = Phase(names[opened.phase], condition.tone, opened.doing or "")
    before = [Phase(name, "ok") for name in list(names.values())[:at]]
    return [*before, here, *(Phase(name, "idle") for name in list(names.values())[at + 1 :])]

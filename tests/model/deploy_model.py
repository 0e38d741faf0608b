"""M6, rolling deploys: processes of two versions beside each other, one of whose consumers has changed.

Which code may join and which may apply is decided by the code that ships (`checked_views`, `Consumer.runs`); what is
modelled is the barrier, what ends with what, builds, restarts, and a deploy that is given up. Each rule of RULES can be
taken out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.model.deploy_world import RULES, Process, Release, Row, World, may_apply, may_join
from tests.model.explorer import Model, put

CHANGED, UNCHANGED = 0, 1


class Deploys:
    """The steps of a deploy without one of the rules, or with all of them."""

    def __init__(
        self,
        newer: Release,
        versions: Sequence[int] = (0, 1),
        work: int = 2,
        starts: int = 1,
        without: str | None = None,
    ) -> None:
        """Take the changed consumer's newer release, and the version that each process runs; `work`: batches of each
        consumer, `starts`: how often processes are started again."""
        assert without is None or without in RULES
        self._releases = ((Release(), Release()), (newer, Release()))
        self._versions, self._work, self._starts, self._without = versions, work, starts, without

    def model(self) -> Model[World]:
        """Return what is to be explored."""
        start = World((Row(), Row()), tuple(Process(version) for version in self._versions))
        invariants = {
            "I11 a generation is written by the revision alone that has built it": lambda w: not w.mixed,
            "I12 nothing is committed by code that was replaced": lambda w: not w.late,
            "I12 code that was replaced comes back on purpose alone": self.code_goes_forward,
        }
        return Model(start, self.steps, invariants, self.rests)

    # -- what holds ----------------------------------------------------------------------------------------------

    def code_goes_forward(self, w: World) -> bool:
        """Look for code that was taken up twice."""
        return all(len(set(row.ran)) == len(row.ran) for row in w.rows)

    def rests(self, w: World) -> bool:
        """Return whether all is applied; of the changed consumer only while there is a process with its code."""
        given_up = not any(
            one.workers and self._releases[one.version][CHANGED].code == w.rows[CHANGED].code
            for one in w.processes
        )
        done = [row.applied == self._work for row in w.rows]
        return done[UNCHANGED] and (done[CHANGED] or given_up)

    # -- steps ---------------------------------------------------------------------------------------------------

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Return all that may happen next."""
        for index, process in enumerate(w.processes):
            for consumer, at in enumerate(process.workers):
                yield from self._works(w, index, consumer, at)
            if process.workers and all(at == "ended" for at in process.workers) and w.starts < self._starts:
                started = put(w.processes, index, Process(process.version))
                yield f"restarts {index}", w._replace(processes=started, starts=w.starts + 1)
            if process.version and process.workers:
                gone = put(w.processes, index, process._replace(workers=()))
                yield f"gives-up {index}", w._replace(processes=gone)

    def _works(self, w: World, index: int, consumer: int, at: str) -> Iterator[tuple[str, World]]:
        release, row = self._releases[w.processes[index].version][consumer], w.rows[consumer]
        if at == "out":
            yield from self._joins(w, index, consumer, release, row)
        elif at == "building" and row.revision >= release.revision:
            yield f"built {index}", self._to(w, index, consumer, "out")
        elif at == "building" and self._is_alone(w, consumer):
            made = row._replace(made_by=release.revision)
            after = w._replace(rows=put(w.rows, consumer, _taken_up(made, release)))
            yield f"swaps {index}", self._to(after, index, consumer, "joined")
        elif at == "joined" and row.applied < self._work:
            if may_apply(release, (row.code, row.revision)) or self._without == "code compared":
                yield f"opens {index}", self._to(w, index, consumer, "open")
            else:
                yield f"superseded {index}", self._ended(w, index, consumer)
        elif at == "open":
            after = w._replace(
                rows=put(w.rows, consumer, row._replace(applied=min(row.applied + 1, self._work))),
                late=w.late or row.code != release.code,
                mixed=w.mixed or row.made_by > release.revision or release.revision > row.made_by,
            )
            yield f"commits {index}", self._to(after, index, consumer, "joined")

    def _joins(
        self, w: World, index: int, consumer: int, release: Release, row: Row
    ) -> Iterator[tuple[str, World]]:
        if not self._is_alone(w, consumer):
            return
        if not may_join(release, (row.code, row.revision)):
            yield f"refused {index}", self._ended(w, index, consumer)
        elif release.revision > row.revision and self._without != "built first":
            yield f"builds {index}", self._to(w, index, consumer, "building")
        elif release.code == row.code:
            yield f"joins {index}", self._to(w, index, consumer, "joined")
        elif release.code in row.ran and self._without != "older code refused":
            yield f"refused {index}", self._ended(w, index, consumer)
        else:
            after = w._replace(rows=put(w.rows, consumer, _taken_up(row, release)))
            yield f"adopts {index}", self._to(after, index, consumer, "joined")

    # -- what a step does ----------------------------------------------------------------------------------------

    def _ended(self, w: World, index: int, consumer: int) -> World:
        """Have newer code end a consumer in a process, and nothing else of it."""
        if self._without != "each alone":
            return self._to(w, index, consumer, "ended")
        process = w.processes[index]
        return w._replace(processes=put(w.processes, index, process._replace(workers=("ended", "ended"))))

    def _is_alone(self, w: World, consumer: int) -> bool:
        """Return whether no batch of the consumer is open."""
        return self._without == "barrier" or not any(
            one.workers and one.workers[consumer] == "open" for one in w.processes
        )

    def _to(self, w: World, index: int, consumer: int, at: str) -> World:
        process = w.processes[index]
        moved = process._replace(workers=put(process.workers, consumer, at))
        return w._replace(processes=put(w.processes, index, moved))


def _taken_up(row: Row, release: Release) -> Row:
    return row._replace(code=release.code, revision=release.revision, ran=(*row.ran, release.code))

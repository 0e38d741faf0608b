"""M3, floors: processes that write down how far a durable is settled, with acks of others, moves, restores and purges.

Whether stream and durable are those that were read so far, and whether counts add up, is decided by the code that ships
(`judge`, `adds_up`); what is modelled is who asks the broker when, what is written under which epoch, and who rejoins.
Each rule of RULES can be taken out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explorer import Model, put
from tests.model.floor_world import (
    RULES,
    Durable,
    Faults,
    Memory,
    Process,
    World,
    acked,
    delivered,
    judged,
    missing,
    moved,
)


class Floors:
    """The steps of processes on one durable without one of the rules, or with all of them."""

    def __init__(
        self,
        may: Faults,
        messages: int = 2,
        processes: int = 2,
        takers: int = 1,
        without: str | None = None,
    ) -> None:
        """Take the bounds; `takers`: so many of the processes take messages, the others look on, and write floors."""
        assert without is None or without in RULES
        self._takers = takers
        self._may, self._last, self._without = may, messages, without
        self._processes = processes

    def model(self) -> Model[World]:
        """Return what is to be explored."""
        start = World(Memory(), Durable(), (Process(),) * self._processes)
        invariants = {
            "I1 what lies below the floor is settled": self.floor_is_settled,
            "I13 no healthy database is taken for an older one": lambda w: not w.alarm,
            "I15 of another client is told only where there was one": lambda w: not w.false,
        }
        return Model(start, self.steps, invariants, self.rests)

    # -- what holds ----------------------------------------------------------------------------------------------

    def floor_is_settled(self, w: World) -> bool:
        """Look for a message below the floor that nobody has settled and that is there."""
        return all(seq in w.memory.settled or seq <= w.durable.purged for seq in range(1, w.memory.floor + 1))

    def rests(self, w: World) -> bool:
        """Return whether each message is settled, or gone and told."""
        return all(seq in w.memory.settled or seq <= w.lost for seq in range(1, self._last + 1))

    # -- steps ---------------------------------------------------------------------------------------------------

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Return all that may happen next."""
        for index, one in enumerate(w.processes):
            if one.at == "out":
                yield f"begins {index}", self._to(w, index, Process(at="read", before=w.memory))
            elif one.at == "read":
                yield f"asks {index}", self._to(w, index, one._replace(at="asked", heard=w.durable))
            elif one.at == "asked":
                yield self._joined(w, index, one)
            else:
                if index < self._takers:
                    yield from self._works(w, index, one)
                yield from self._records(w, index, one)
        yield from self._of_clients(w)
        yield from self._of_servers(w)

    def _joined(self, w: World, index: int, one: Process) -> tuple[str, World]:
        """Judge both before anything is read, and move the durable where that is called for."""
        assert one.before is not None
        assert one.heard is not None
        restored = self._without != "doubt after a start"
        judgement = judged(one.before, one.heard, self._last, restored=restored)
        peers = self._has_peers(w, index)
        go_to, doubt = judgement.go_to, judgement.doubt
        w = self._told(w, judgement.gone)
        if (go_to is None or (doubt and peers)) and (lacks := self._missing(w, one.heard)):
            w = self._accused(w)
            if self._without != "read again":
                go_to, doubt = lacks[0], False
        joined = Process(at="in", left=w.memory.floor)
        if doubt and peers:
            return f"joins {index}", self._to(w, index, joined._replace(owed=one.heard.floor))
        if go_to is None:
            return f"joins {index}", self._to(w, index, joined)
        if w.memory.epoch != one.before.epoch:
            return f"again {index}", self._to(w, index, Process())
        memory = w.memory._replace(epoch=w.memory.epoch + 1, deliveries=0, acked=None, made=one.heard.made)
        after = w._replace(memory=memory, durable=moved(w.durable, go_to))
        return f"moves {index}", self._to(after, index, joined)

    def _works(self, w: World, index: int, one: Process) -> Iterator[tuple[str, World]]:
        """Take a message, settle it, ack it."""
        if not one.held:
            for seq in self._at_hand(w):
                taken = one._replace(held=seq, held_of=w.memory.epoch, done=False)
                yield f"takes {index}", self._to(w, index, taken)._replace(durable=delivered(w.durable, seq))
            return
        settles = not one.done if self._without != "ack last" else one.done
        after = one._replace(done=True) if not one.done else one._replace(held=0)
        if settles:
            settled = w.memory._replace(settled=w.memory.settled | {one.held})
            yield f"settles {index}", self._to(w, index, after)._replace(memory=settled)
        else:
            stands = one.held_of == w.memory.epoch  # an ack of before the move is none
            durable = acked(w.durable, one.held) if stands else w.durable
            yield f"acks {index}", self._to(w, index, after)._replace(durable=durable)

    def _records(self, w: World, index: int, one: Process) -> Iterator[tuple[str, World]]:
        """Write down where stream and durable stand."""
        if one.before is None:
            if w.memory.floor < one.left:
                yield f"distrusts {index}", self._to(w, index, Process())._replace(alarm=True)
            elif w.memory.floor < one.owed and not self._has_peers(w, index):
                yield f"doubts {index}", self._to(w, index, Process())
            elif w.memory.floor >= one.owed:
                yield f"looks {index}", self._to(w, index, one._replace(before=w.memory, owed=0))
        elif one.heard is None:
            yield f"hears {index}", self._to(w, index, one._replace(heard=w.durable))
        else:
            yield self._written(w, index, one, one.before, one.heard)

    def _written(
        self, w: World, index: int, one: Process, before: Memory, heard: Durable
    ) -> tuple[str, World]:
        judgement = judged(before, heard, self._last, restored=False)
        if judgement.go_to is not None:
            return f"rejoins {index}", self._to(w, index, Process())
        w = self._told(w, judgement.gone)
        if self._missing(w, heard):
            again = one._replace(before=None, heard=None) if self._without == "read again" else Process()
            return f"accuses {index}", self._to(self._accused(w), index, again)
        m = w.memory
        rises = m.floor <= heard.floor and (m.deliveries <= heard.deliveries or m.made != heard.made)
        if (rises or self._without == "rises only") and m.epoch == before.epoch:
            m = m._replace(
                floor=heard.floor,
                acked=heard.acked,
                deliveries=heard.deliveries,
                made=heard.made,
                seen=max(m.seen, heard.floor, heard.purged),
            )
        after = one._replace(before=None, heard=None, left=m.floor)
        return f"records {index}", self._to(w._replace(memory=m), index, after)

    def _of_clients(self, w: World) -> Iterator[tuple[str, World]]:
        if (fault := self._happens(w, "deaths")) is not None:
            for index, one in enumerate(w.processes):
                if one.at != "out":
                    yield f"dies {index}", self._to(w, index, Process())._replace(faults=fault)
        if (fault := self._happens(w, "thefts")) is not None:
            for seq in self._at_hand(w):
                taken = acked(delivered(w.durable, seq), seq)
                yield f"steals {seq}", w._replace(durable=taken, stolen=True, faults=fault)
        if (fault := self._happens(w, "jumps")) is not None:
            ahead = moved(w.durable, self._last + 1)
            yield "jumps", w._replace(durable=ahead, stolen=True, faults=fault)

    def _of_servers(self, w: World) -> Iterator[tuple[str, World]]:
        if (fault := self._happens(w, "remade")) is not None:
            fresh = moved(w.durable, 1)._replace(made=w.durable.made + 1)
            yield "remade", w._replace(durable=fresh, faults=fault)
        if (fault := self._happens(w, "purges")) is not None:
            for seq in range(1, self._last + 1):
                yield f"purges {seq}", w._replace(durable=_purged(w.durable, seq), faults=fault)
        if (fault := self._happens(w, "restores")) is not None:
            if w.kept is None:
                yield "keeps", w._replace(kept=w.memory)
            elif w.kept != w.memory:
                ended = (Process(),) * len(w.processes)
                yield "restores", w._replace(memory=w.kept, processes=ended, faults=fault)

    # -- what a step does ----------------------------------------------------------------------------------------

    def _missing(self, w: World, heard: Durable) -> list[int]:
        return [] if self._without == "proven" else missing(w.memory, heard)

    def _accused(self, w: World) -> World:
        return w._replace(false=w.false or not w.stolen)

    def _told(self, w: World, gone: int) -> World:
        if self._without == "told of what is gone" or gone <= w.lost:
            return w
        return w._replace(lost=gone, memory=w.memory._replace(seen=max(w.memory.seen, gone)))

    def _happens(self, w: World, fault: str) -> Faults | None:
        """Return the faults with one more; None where it has happened as often as it may."""
        times = getattr(w.faults, fault)
        return None if times >= getattr(self._may, fault) else w.faults._replace(**{fault: times + 1})

    def _to(self, w: World, index: int, one: Process) -> World:
        return w._replace(processes=put(w.processes, index, one))

    # -- what can be asked ---------------------------------------------------------------------------------------

    def _has_peers(self, w: World, index: int) -> bool:
        return any(one.at == "in" for at, one in enumerate(w.processes) if at != index)

    def _at_hand(self, w: World) -> list[int]:
        """Return what the durable would deliver: the next message, and those that nobody has in hand any more."""
        held = {one.held for one in w.processes if one.held and one.held_of == w.memory.epoch}
        again = [seq for seq, _ in w.durable.pending if seq not in held]
        after = max(w.durable.at, w.durable.purged) + 1
        return [*again, after] if after <= self._last else again


def _purged(durable: Durable, seq: int) -> Durable:
    """Remove messages up to this one: the durable goes over them, and its floor too."""
    pending = tuple(one for one in durable.pending if one[0] > seq)
    after = durable._replace(pending=pending, at=max(durable.at, seq), purged=seq)
    if seq <= durable.floor:
        return after
    return after._replace(
        floor=seq if pending else after.at, acked=pending[0][1] - 1 if pending else after.deliveries
    )

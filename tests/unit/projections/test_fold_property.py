"""The fold at once is the fold one by one, whatever is assigned and whoever fails."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.projections.everything import Everything, puts
from tests.unit.projections.folding import steps_of

from projectionist.projections import Event, definition
from projectionist.projections.copying import copied
from projectionist.projections.folding.fold import FoldResult, fold
from projectionist.projections.folding.step import Step

Rows = dict[Any, tuple[Any, ...]]

batches = st.lists(
    st.tuples(st.sampled_from(["a-1", "a-2", "a-3", "a-4"]), puts(st.sampled_from(["x", "y"]))), max_size=12
)


def one_by_one(steps: list[Step], rows: Rows) -> FoldResult:
    """Each step a batch of its own; what a batch leaves goes through the table's form into the next."""
    result = FoldResult({}, [], {}, [])
    for step in steps:
        if step.aggregate in result.failures:
            continue
        part = fold(definition(Everything), [step], dict(rows))
        result.failures |= part.failures
        result.intents += part.intents
        result.idle += part.idle
        for key, row in part.rows.items():
            rows.pop(key, None)
            if row is not None:
                rows[key] = tuple(row)
    return result


def seen(folded: FoldResult) -> object:
    """What must be equal, by representation: 1 and True, 1.0 and 1.00 are not the same here."""
    return (
        [(index, emitted.slot, emitted.body) for index, emitted in folded.intents],
        {unit: (failure.step.index, failure.message) for unit, failure in folded.failures.items()},
    )


def written(folded: FoldResult, before: Rows) -> str:
    after = {**before, **folded.rows}
    return repr(sorted((key, row) for key, row in after.items() if row is not None))


@settings(max_examples=300)
@given(batches, batches)
def test_a_batch_ends_where_its_events_end_one_by_one(
    before: list[tuple[str, Event]], batch: list[tuple[str, Event]]
) -> None:
    rows: Rows = {}
    one_by_one(steps_of(Everything, before), rows)
    loaded = dict(rows)
    at_once = fold(definition(Everything), steps_of(Everything, batch), loaded)
    singly = one_by_one(steps_of(Everything, batch), rows)
    assert seen(at_once) == seen(singly)
    assert written(at_once, loaded) == repr(sorted(rows.items()))


@settings(max_examples=200)
@given(batches)
def test_what_failed_might_as_well_not_have_been_there(batch: list[tuple[str, Event]]) -> None:
    steps = steps_of(Everything, batch)
    whole = fold(definition(Everything), steps, {})
    failed = {unit: failure.step.index for unit, failure in whole.failures.items()}
    kept = [step for step in steps if step.index < failed.get(step.aggregate, len(steps))]
    without = fold(definition(Everything), kept, {})
    assert without.failures == {}
    assert written(without, {}) == written(whole, {})
    assert seen(without) == (seen(whole)[0], {})  # type: ignore[index] # a pair


@settings(max_examples=100)
@given(batches)
def test_a_fold_leaves_its_events_and_rows_as_they_were(batch: list[tuple[str, Event]]) -> None:
    before = repr([copied(event) for _, event in batch])
    fold(definition(Everything), steps_of(Everything, batch), {})
    assert repr([event for _, event in batch]) == before

"""The package's surface, and the small things users meet on it."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from tests.unit.projections.folding import folded
from tests.unit.projections.shop import OrderPaid, OrderPlaced, OrderShipped, Totals

import projectionist.outbox
import projectionist.projections
from projectionist.core.errors import DefinitionError
from projectionist.projections import (
    Delete,
    Envelope,
    Event,
    Projection,
    Reactor,
    Retry,
    SqlProjection,
    absent,
    definition,
    on,
)
from projectionist.projections.consumer_classes import ProjectionMeta
from projectionist.projections.copying import copied, is_mutable


@pytest.mark.parametrize("package", [projectionist.projections, projectionist.outbox])
def test_all_names_everything_public_and_is_sorted(package: Any) -> None:
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    public = {name for name in vars(package) if not name.startswith("_") and name not in modules}
    assert set(package.__all__) - modules == public - {"annotations"}
    assert list(package.__all__) == sorted(package.__all__)


def test_every_module_says_what_it_is_for() -> None:
    for module in pkgutil.iter_modules(projectionist.projections.__path__, "projectionist.projections."):
        assert importlib.import_module(module.name).__doc__


def test_an_envelope_writes_its_aggregate_as_one_text() -> None:
    nameless = Envelope(source="/shop", id="e-1", type="order.paid")
    assert nameless.aggregate is None
    assert Envelope(source="/shop", id="e-1", type="t", aggregate_id="7").aggregate == "/7"
    assert (
        Envelope(source="/shop", id="e-1", type="t", aggregate_type="order", aggregate_id="7").aggregate
        == "order/7"
    )


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf")])
def test_a_wait_that_is_none_is_refused(after: float) -> None:
    with pytest.raises(ValueError, match="zero or more"):
        Retry(after=after)


def test_absent_is_a_mark_and_not_called() -> None:
    with pytest.raises(TypeError, match="a mark for when="):
        absent(None, None)


def test_a_reactor_has_no_row_to_delete() -> None:
    class Deleting(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Delete:
            return Delete()

    assert "no row to delete" in folded(Deleting, ("o", OrderPaid("o"))).failures["/o"].message


@pytest.mark.parametrize("base", [Reactor, SqlProjection])
def test_a_class_without_keywords_is_a_base_for_others(base: type) -> None:
    class Base(base):  # type: ignore[misc] # a case each
        pass

    with pytest.raises(DefinitionError, match="is no consumer"):
        definition(Base)


def test_a_sql_projection_keeps_no_state() -> None:
    with pytest.raises(AttributeError, match="one instance serves every event"):
        Totals().total = 1


@pytest.mark.parametrize("hint", ["Unknown", "list[Unknown]"])
def test_a_type_that_is_not_defined_yet_is_told(hint: str) -> None:
    namespace = {
        "__annotations__": {"id": "str", "field": hint},
        "__module__": __name__,
        "field": None,
        "paid": on(OrderPaid, key="order_id")(lambda self, event: None),
    }
    keywords: dict[str, Any] = {"stream": "S", "subjects": "s", "table": "t", "key": "id"}
    with pytest.raises(DefinitionError, match=r"'Unknown' is not defined.*before the class"):
        ProjectionMeta("Early", (Projection,), namespace, **keywords)


def test_an_annotation_only_type_checkers_know_names_no_intent() -> None:
    class Written(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Unknown: ...  # type: ignore[name-defined] # noqa: F821 the point

    assert definition(Written).intents == ()


class Held(Event, type="held"):
    pair: tuple[int, list[int]] = (1, [])
    names: frozenset[str] = frozenset()
    tree: dict[str, Any] | None = None


def test_an_event_is_copied_only_if_something_in_it_can_change() -> None:
    assert [is_mutable(event) for event in (OrderPlaced, OrderShipped, Held)] == [False, True, True]
    held = Held((1, [2]), frozenset("a"), {"a": [{1, 2}]})
    again = copied(held)
    assert again == held
    again.pair[1].append(3)
    again.tree["a"][0].add(3)
    assert held == Held((1, [2]), frozenset("a"), {"a": [{1, 2}]})

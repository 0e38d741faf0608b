"""A view set's class in compiled form: the views that it lists, bound to what the set reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

from projectionist.core.errors import DefinitionError
from projectionist.projections.compiled import unique_names
from projectionist.projections.compiled.class_options import (
    ClassOptions,
    check_policy,
    checked_name,
    subjects_of,
)
from projectionist.projections.compiled.definition import (
    ConsumerDefinition,
    Definition,
    Kind,
    ViewDeclaration,
    compiled,
    compiled_of,
)
from projectionist.projections.event import AnyEvent
from projectionist.projections.handlers import Handler


@dataclass(frozen=True, eq=False, kw_only=True)
class SetDefinition(ConsumerDefinition):
    """One consumer that feeds several views."""

    members: tuple[Definition, ...]
    """In the order in which the handlers of one event run, which decides nothing else: as listed, but for views that
    others look up, which go before these."""

    @property
    def views(self) -> tuple[Definition, ...]:
        """Return its views, in the order in which their handlers run."""
        return self.members

    @cached_property
    def code(self) -> bytes:
        """Return the fingerprint of the code of all its views, in whatever order it lists them."""
        return code_of_views((view.name, view.code) for view in self.members)


def with_support(view: Definition) -> ConsumerDefinition:
    """Return a view's consumer as far as this view is concerned, and those that it looks up."""
    if not view.support:
        return view
    return SetDefinition(
        cls=view.cls,
        kind=Kind.SET,
        name=view.consumer,
        formerly=view.consumer_formerly,
        stream=view.stream,
        subjects=view.subjects,
        sequence=view.sequence,
        baseline=view.baseline,
        effects=view.effects,
        decrypt=view.decrypt,
        members=(*view.support, view),
    )


def of_views(definition: ConsumerDefinition, views: Iterable[Definition]) -> ConsumerDefinition:
    """Return a consumer as far as these of its views are concerned: it knows the events that they handle."""
    return replace(definition, members=tuple(views)) if isinstance(definition, SetDefinition) else definition


def code_of_views(codes: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a digest of the code of several views, each told by a name."""
    digest = blake2b(digest_size=16)
    for name, code in sorted(codes):
        digest.update(f"{name}\0{code.hex()}\0".encode())
    return digest.digest()


def compiled_set(cls: type, policy: ClassOptions, listed: object) -> SetDefinition:
    """Check the keywords of a set's class, and bind the views that it lists. Raises DefinitionError."""
    name = checked_name(cls, policy)
    check_policy(cls, policy)
    views = _all_bound(name, policy, _declared(name, listed))
    _check_names(name, views)
    _check_events(name, views)
    unique_names.enter(cls, [f"name {name!r}"])
    return SetDefinition(
        cls=cls,
        kind=Kind.SET,
        name=name,
        formerly=policy.formerly,
        stream=policy.stream,
        subjects=subjects_of(policy),
        sequence=policy.sequence,
        baseline=policy.baseline,
        effects=policy.effects,
        decrypt=policy.decrypt,
        members=views,
    )


def bound_alone(cls: type) -> Definition:
    """Return a view as it is in a set with nothing but what it looks up, for whoever tries it without servers."""
    found = compiled_of(cls)
    assert isinstance(found, ViewDeclaration), "it is a view"
    policy = ClassOptions(stream="TEST", subjects="test.{type}.{id}")
    views = compiled_set(
        type("SetOfOne", (), {"__qualname__": "<locals>.SetOfOne"}), policy, [*_needed(found), cls]
    ).views
    return next(one for one in views if one.cls is cls)


def _needed(view: ViewDeclaration) -> list[type]:
    """Return the classes of all views that this one looks up, at first or second hand."""
    found = dict[type, None]()
    for cls in view.looks_up:
        its = compiled_of(cls)
        if isinstance(its, ViewDeclaration):
            found.update(dict.fromkeys((*_needed(its), cls)))
    return list(found)


def _declared(name: str, listed: object) -> list[ViewDeclaration]:
    if isinstance(listed, str | Mapping) or not isinstance(listed, Sequence) or not listed:
        raise DefinitionError(
            f"{name}: views={listed!r}",
            remedy="List the classes of its views: views=[OrderSummary, OrderLines]",
        )
    found = [_view(name, one) for one in listed]
    if twice := next((one.cls for one in found if found.count(one) > 1), None):
        raise DefinitionError(f"{name}: lists {twice.__name__} twice", remedy="List each view once")
    return found


def _view(name: str, listed: object) -> ViewDeclaration:
    found = compiled_of(listed) if isinstance(listed, type) else None
    called = getattr(listed, "__name__", repr(listed))
    if isinstance(found, ConsumerDefinition):
        raise DefinitionError(
            f"{name}: {called} has a stream= of its own, so that it is a consumer by itself",
            remedy="Take stream= and what else says how it reads out of it, or leave it out of views=",
        )
    if found is None:
        raise DefinitionError(
            f"{name}: {called} is no view",
            remedy="List classes of a Projection with table= and key=, or of a Reactor with handlers, without stream=",
        )
    if found.kind is Kind.SQL:
        raise DefinitionError(
            f"{name}: {called} is a SqlProjection, whose SQL cannot be undone together with rows of other views",
            remedy="Give it a stream= of its own, and leave it out of views=",
        )
    return found


def _all_bound(
    consumer: str, policy: ClassOptions, listed: Sequence[ViewDeclaration]
) -> tuple[Definition, ...]:
    """Make the definitions of the views; those that are looked up stand before those that look."""
    by_class = {one.cls: one for one in listed}
    bound: dict[type, Definition] = {}

    def bind(view: ViewDeclaration) -> None:
        for needed in view.looks_up:
            if needed in by_class:
                bind(by_class[needed])
        if view.cls not in bound:
            bound[view.cls] = _bound(consumer, policy, view, bound)

    for one in listed:
        bind(one)
    return tuple(bound.values())


def _bound(
    consumer: str, policy: ClassOptions, view: ViewDeclaration, siblings: Mapping[type, Definition]
) -> Definition:
    """Make the view's definition: what it reads is the set's, what its rows are its own."""
    handlers: dict[int, Handler] = {}
    for one in view.handlers.values():
        handlers.setdefault(id(one), copy(one))  # another set may read in another order
    return compiled(
        view.cls,
        view.kind,
        replace(policy, name=view.name, formerly=view.formerly, revision=view.revision),
        {kind: handlers[id(one)] for kind, one in view.handlers.items()},
        table=view.table,
        consumer=consumer,
        consumer_formerly=policy.formerly,
        siblings=siblings,
    )


def _check_names(name: str, views: Sequence[Definition]) -> None:
    taken: dict[str, str] = {f"name {name!r}": name}
    for view in views:
        for claim in (f"name {view.name!r}", *(f"table {table.public!r}" for table in view.owned)):
            other = taken.setdefault(claim, view.cls.__qualname__)
            if other is not view.cls.__qualname__ or claim == f"name {name!r}":
                raise DefinitionError(
                    f"{name}: {view.cls.__name__} has the {claim} of {other}",
                    remedy='Names of sets, views and tables are each one\'s own: write another name="…" or table="…"',
                )


def _check_events(name: str, views: Sequence[Definition]) -> None:
    """Refuse two classes for one type: an event is decoded once, for all views."""
    read: dict[str, tuple[type[AnyEvent], str]] = {}
    for view in views:
        for kind, handler in view.handlers.items():
            event, first = read.setdefault(kind, (handler.event, view.cls.__name__))
            if event is not handler.event:
                raise DefinitionError(
                    f"{name}: events of type {kind!r} are {event.__qualname__} in {first} and "
                    f"{handler.event.__qualname__} in {view.cls.__name__}",
                    remedy="An event is decoded once for the whole set: handle one class in all its views",
                )

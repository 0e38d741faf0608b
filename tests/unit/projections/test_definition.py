"""Classes that cannot work are refused when they are defined, with a word on what to write instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from types import FunctionType, new_class
from typing import Annotated, Any
from uuid import UUID, uuid4

import msgspec
import pytest
from tests.unit.projections import shop

from projectionist.core.errors import DefinitionError, ProjectionistError
from projectionist.outbox import Intent
from projectionist.projections import (
    BadValue,
    Envelope,
    Event,
    EventError,
    Index,
    Kind,
    Projection,
    Reactor,
    SqlProjection,
    Tx,
    absent,
    check_distinct,
    definition,
    on,
)
from projectionist.projections.compiled.definition import Definition
from projectionist.projections.consumer_classes import ProjectionMeta
from projectionist.projections.folding.step import prepared


class Happened(Event, type="it.happened", formerly=("it.occurred",)):
    id: str
    count: int = 0
    maybe: str | None = None


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = 1
    BIG = 2


class Code(str):
    """A text of a class of its own, as a member of an enum may be."""

    __slots__ = ()


class Region(Enum):
    EU = Code("eu")


class Mixed(Enum):
    TEXT = "a"
    NUMBER = 1


class Line(msgspec.Struct):
    sku: str
    tags: list[str] = []


class Marked(msgspec.Struct):
    marks: set[str] = set()


class Nested(msgspec.Struct):
    inside: Nested | None = None
    pairs: list[tuple[int, int]] = []


class Recursive(msgspec.Struct):
    inside: list[Recursive] = []


class Note(Intent, provider="email"):
    text: str = ""


class Letter(Intent, provider="email", formerly=("Mail",)):
    text: str = ""


KEYWORDS: dict[str, Any] = {"stream": "S", "subjects": "s.{aggregate}", "table": "things", "key": "id"}


@on(Happened)
def happened(self: Any, event: Happened) -> None: ...


def projection(
    annotations: dict[str, Any] | None = None, members: dict[str, Any] | None = None, **keywords: Any
) -> Definition:
    """A projection class made on the spot, with what a case changes about a class that works."""
    fields = (
        {"id": str, **(annotations or {})} if annotations is None or "id" not in annotations else annotations
    )
    namespace = {
        "__annotations__": fields,
        "__module__": __name__,
        "__qualname__": "projection.<locals>.Made",
        "happened": happened,
        **(members or {}),
    }
    return definition(ProjectionMeta("Made", (Projection,), namespace, **{**KEYWORDS, **keywords}))


def refused(complaint: str) -> Any:
    return pytest.raises(ProjectionistError, match=complaint)


def anew(function: Any) -> Any:
    """The same function without the marks that `@on` left on it."""
    return FunctionType(function.__code__, function.__globals__, function.__name__)


# What a class declares


def test_a_class_becomes_its_definition() -> None:
    made = definition(shop.OrderSummary)
    assert (made.name, made.kind, made.stream, made.subjects.filter) == (
        "OrderSummary",
        Kind.PROJECTION,
        "SHOP",
        "shop.order.*",
    )
    assert (made.sequence, made.baseline, made.revision, made.effects) == ("contiguous", "first", 1, "now")
    assert made.known == {"order.placed", "order.paid", "order.forgotten", "order.shipped"}
    assert made.table is not None
    assert (made.table.schema, made.table.name) == ("public", "order_summary")
    assert [(c.name, c.sql_type, c.default) for c in made.table.columns] == [
        ("order_id", 'text collate "C"', None),
        ("email", "text", ""),
        ("total_cents", "bigint", 0),
        ("status", "text", "new"),
        ("parcels", "jsonb", "[]"),
    ]


def test_keywords_are_kept() -> None:
    made = projection(
        name="things",
        formerly=("Stuff",),
        sequence="monotonic",
        baseline=7,
        revision=3,
        effects="beginning",
        table="reporting.things",
        subjects=("s.{aggregate}", "t.{aggregate}"),
    )
    assert (made.name, made.formerly, made.sequence, made.baseline) == ("things", ("Stuff",), "monotonic", 7)
    assert (made.revision, made.effects, made.subjects.filter) == (3, "beginning", "*.*")
    assert made.table is not None
    assert (made.table.schema, made.table.name) == ("reporting", "things")


def test_a_former_event_type_has_the_same_handler() -> None:
    made = projection()
    assert made.handlers["it.happened"] is made.handlers["it.occurred"]
    assert made.decode("it.occurred", 1, b'{"id": "a"}') == Happened("a")


def test_an_event_no_handler_declares_cannot_be_decoded() -> None:
    with pytest.raises(EventError, match=r"handles no 'it\.never\.happened'"):
        projection().decode("it.never.happened", 1, b"{}")


def test_a_base_class_shares_fields_and_handlers_and_is_no_consumer_itself() -> None:
    class Base(Projection):
        id: str
        total: int = 0

        @on(Happened)
        def counted(self, event: Happened) -> None:
            self.total += 1

    class Derived(Base, stream="S", subjects="s.{aggregate}", table="derived", key="id"):
        label: str = ""

    made = definition(Derived)
    assert made.handlers["it.happened"].name == "counted"
    assert made.table is not None
    assert [column.name for column in made.table.columns] == ["id", "total", "label"]
    with refused("'Base' is no consumer"):
        definition(Base)


def test_what_is_no_consumer_is_told_so() -> None:
    for other in (Happened, int, Projection, Reactor):
        with refused("is no consumer"):
            definition(other)


def test_one_method_may_handle_several_events() -> None:
    class Both(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(Happened, shop.OrderPaid)
        def both(self, event: Happened | shop.OrderPaid) -> None: ...

    assert definition(Both).known == {"it.happened", "it.occurred", "order.paid"}


def test_slots_are_known_from_annotations_with_their_former_names() -> None:
    class Writing(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(Happened)
        def wrote(self, event: Happened) -> Iterator[Note | Letter] | None: ...

        @on(shop.OrderPaid)
        def unknown(self, event):  # type: ignore[no-untyped-def] # a user without annotations
            ...

    made = definition(Writing)
    assert made.slots == {"Letter": ("Mail",), "Note": ()}
    assert made.intents == (Letter, Note)


# Fields and columns


@pytest.mark.parametrize(
    ("kind", "value", "sql_type", "nullable", "default"),
    [
        (str, "", "text", False, ""),
        (str | None, None, "text", True, None),
        (Annotated[int, msgspec.Meta(ge=0)], 1, "bigint", False, 1),
        (float, 1, "double precision", False, 1.0),
        (bool, False, "boolean", False, False),
        (Decimal, Decimal("1E2"), "numeric", False, "100"),
        (bytes, b"\x00", "bytea", False, b"\x00"),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC), "timestamptz", False, datetime(2026, 1, 1, tzinfo=UTC)),
        (date, date(2026, 1, 1), "date", False, date(2026, 1, 1)),
        (UUID, UUID(int=1), "uuid", False, UUID(int=1)),
        (Colour, Colour.RED, "text", False, "red"),
        (Size | None, Size.BIG, "bigint", True, 2),
        (list[int], [], "jsonb", False, "[]"),
        (dict[str, Any], {}, "jsonb", False, "{}"),
        (list | None, None, "jsonb", True, None),
        (Line | None, None, "jsonb", True, None),
        (Recursive | None, None, "jsonb", True, None),
    ],
)
def test_a_field_type_is_a_column_type(
    kind: Any, value: Any, sql_type: str, nullable: bool, default: Any
) -> None:
    made = projection({"field": kind}, {"field": value})
    assert made.table is not None
    column = made.table.columns[1]
    assert (column.sql_type, column.nullable, column.default) == (sql_type, nullable, default)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (set[str], "maps to no column. Use str, int"),
        (tuple[int, int], "maps to no column"),
        (int | str, "maps to no column"),
        (Any, "maps to no column"),
        (object, "maps to no column"),
        (complex, "is a complex, which maps to no column"),
        (Mixed, "members of Mixed are not all texts or all integers"),
        (list[set[int]], "holds a set"),
        (Marked, "holds a set"),
        (Nested, "holds a tuple"),
        (dict[int, str], "keys that are not str"),
        (list[complex], "no form in JSON"),
    ],
)
def test_a_field_type_that_maps_to_no_column_is_refused(kind: Any, complaint: str) -> None:
    with refused(complaint):
        projection({"field": kind}, {"field": None})


@pytest.mark.parametrize(
    ("value", "kind", "complaint"),
    [
        (None, str, "the default of Made.field is None and not optional"),
        ("\0", str, "the default of Made.field holds a NUL"),
        (msgspec.field(default_factory=lambda: [1]), list[str], "does not fit"),
        ([1], list[int], "mutable collection"),
        (msgspec.field(default_factory=uuid4), UUID, "another one each time"),
    ],
)
def test_a_default_the_column_cannot_hold_is_refused(value: Any, kind: Any, complaint: str) -> None:
    with refused(complaint):
        projection({"field": kind}, {"field": value})


def test_a_column_without_default_is_refused() -> None:
    with refused("Made.field has no default. Give it one"):
        projection({"field": str})


@pytest.mark.parametrize("name", ["xmin", "ctid", "tableoid"])
def test_names_postgresql_keeps_for_itself_are_refused(name: str) -> None:
    with refused("PostgreSQL keeps this name"):
        projection({name: int}, {name: 0})


def test_a_column_name_too_long_for_postgresql_is_refused() -> None:
    with refused("has 64 bytes, PostgreSQL keeps 63"):
        projection({"c" * 64: int}, {"c" * 64: 0})


# Keys


def test_a_key_that_is_no_field_is_refused() -> None:
    with refused("Made has no field 'number', which key= names"):
        projection(key="number")


def test_a_key_behind_fields_with_defaults_is_refused() -> None:
    with refused("Put the key first"):
        projection({"total": int, "id": str}, {"total": 0})


@pytest.mark.parametrize("kind", [float, bool, bytes, Decimal, list[str], str | None])
def test_a_key_of_an_unfit_type_is_refused(kind: Any) -> None:
    with refused("Made.id cannot be a key"):
        projection({"id": kind})


class Keyed(Event, type="keyed"):
    name: str = ""


@pytest.mark.parametrize(
    ("kind", "aggregate_id", "key"),
    [
        (str, "a b", "a b"),
        (int, "-7", -7),
        (UUID, "00000000-0000-0000-0000-000000000007", UUID(int=7)),
        (date, "2026-01-31", date(2026, 1, 31)),
        (Colour, "red", "red"),
        (Size, "2", 2),
        (Region, "eu", "eu"),
    ],
)
def test_an_own_key_is_read_from_the_aggregates_id(kind: Any, aggregate_id: str, key: Any) -> None:
    made = projection({"id": kind}, {"happened": on(Keyed)(lambda self, event: None)})
    step = prepared(made, 0, "keyed", Keyed(), lambda: Envelope(source="", id="", type=""), "", aggregate_id)
    assert (step.key, type(step.key)) == (key, type(key))


@pytest.mark.parametrize(
    ("kind", "aggregate_id"),
    [
        (str, None),
        (str, "k" * 513),
        (int, "007"),
        (int, "1_0"),
        (int, "x"),
        (int, "9" * 30),
        (int, "9" * 5000),
        (UUID, "00000000000000000000000000000007"),
        (UUID, "00000000-0000-0000-0000-00000000000A"),
        (date, "20260131"),
        (Colour, "green"),
    ],
)
def test_two_aggregates_never_share_an_own_row(kind: Any, aggregate_id: str | None) -> None:
    made = projection({"id": kind}, {"happened": on(Keyed)(lambda self, event: None)})
    step = prepared(made, 0, "keyed", Keyed(), lambda: Envelope(source="", id="", type=""), "", aggregate_id)
    assert isinstance(step.key, BadValue)
    assert "column 'id'" in str(step.key)


def test_a_key_from_a_field_or_a_function_is_shared_and_an_own_one_is_not() -> None:
    keys: dict[str, Any] = {"field": "count", "function": lambda event: event.count + 1, "own": None}
    found = {}
    for name, key in keys.items():
        made = projection(
            {"id": int if key else str}, {"happened": on(Happened, key=key)(anew(happened_plainly))}
        )
        event = Happened("a", 4)
        step = prepared(made, 0, "it.happened", event, lambda: Envelope(source="", id="", type=""), "", "a")
        found[name] = (step.handler.own, step.key)
    assert found == {"field": (False, 4), "function": (False, 5), "own": (True, "a")}


def happened_plainly(self: Any, event: Happened) -> None: ...


@pytest.mark.parametrize(
    "key",
    ["maybe", lambda event: None, lambda event: event.nothing, lambda event: 7, lambda event: [1]],
)
def test_a_key_that_does_not_fit_fails_its_event(key: str | Callable[[Happened], object]) -> None:
    made = projection(None, {"happened": on(Happened, key=key)(anew(happened_plainly))})
    step = prepared(made, 0, "it.happened", Happened("a"), lambda: Envelope(source="", id="", type=""))
    assert isinstance(step.key, BadValue)


@pytest.mark.parametrize(
    ("annotations", "key", "complaint"),
    [
        (
            None,
            "nothing",
            "Happened has no field 'nothing', which key= names. Its fields are: id, count, maybe",
        ),
        (None, "count", "Happened.count is a int, the key id is a str. Give both one type"),
        ({"id": UUID}, None, "Happened.id is a str, the key id is a UUID"),
        ({"id": datetime}, None, "cannot be read from an aggregate's id"),
        (None, 7, "key= is a field of the event"),
    ],
)
def test_a_key_that_can_never_fit_is_refused(annotations: Any, key: Any, complaint: str) -> None:
    with refused(complaint):
        projection(annotations, {"happened": on(Happened, key=key)(lambda self, event: None)})


# Handlers


@pytest.mark.parametrize("event", [int, "order.placed", Event, None, Happened("a")])
def test_on_wants_an_event_class_with_a_type(event: Any) -> None:
    with refused("that is no event with a type"):
        on(event)


def test_two_handlers_for_one_event_are_refused() -> None:
    with refused("Made handles 'it.happened' twice, in happened and again"):
        projection(None, {"again": on(Happened)(lambda self, event: None)})


def test_a_former_type_another_event_has_now_is_refused() -> None:
    class Occurred(Event, type="it.occurred"):
        pass

    with refused("handles 'it.occurred' twice"):
        projection(None, {"again": on(Occurred)(lambda self, event: None)})


def test_a_class_without_handlers_is_refused() -> None:
    with refused("Made handles no event"):
        projection(None, {"happened": None})


@pytest.mark.parametrize(
    "handler",
    [
        lambda self: None,
        lambda self, event, envelope, more: None,
        lambda self, *events: None,
        lambda self, event, **keywords: None,
    ],
)
def test_a_handler_with_other_arguments_is_refused(handler: Any) -> None:
    with refused(r"A handler here takes \(self, event\) or \(self, event, envelope\)"):
        projection(None, {"happened": on(Happened)(handler)})


async def waits(self: Any, event: Happened) -> None: ...


async def waits_and_yields(self: Any, event: Happened) -> AsyncIterator[None]:
    yield None


@pytest.mark.parametrize("handler", [waits, waits_and_yields])
def test_an_async_handler_on_a_pure_class_is_refused(handler: Any) -> None:
    with refused("is async, and handlers of this kind are pure. Write `def`"):
        projection(None, {"happened": on(Happened)(handler)})


def test_a_handler_that_is_no_plain_method_is_refused() -> None:
    class Callable_:  # noqa: N801 a thing that can be called
        def __call__(self, row: Any, event: Happened) -> None: ...

    with refused("is no plain method"):
        projection(None, {"happened": on(Happened)(Callable_())})


def sql(handler: Any, tables: Any = None) -> type[SqlProjection]:
    class Made(SqlProjection, stream="S", subjects="s.{aggregate}"):
        locals()["tables"] = {"made": "id text primary key"} if tables is None else tables
        happened = handler

    return Made


async def writes(self: Any, tx: Any, event: Happened) -> None: ...


async def writes_and_yields(self: Any, tx: Any, event: Happened) -> AsyncIterator[None]:
    yield None


def test_a_sql_projection_has_async_handlers_and_tables() -> None:
    made = definition(sql(on(Happened)(anew(writes))))
    assert (made.kind, dict(made.tables)) == (Kind.SQL, {"made": "id text primary key"})
    assert made.handlers["it.happened"].envelope is False


@pytest.mark.parametrize("handler", [lambda self, tx, event: None, writes_and_yields])
def test_a_sync_handler_on_a_sql_projection_is_refused(handler: Any) -> None:
    with refused("is not a plain `async def`"):
        sql(on(Happened)(anew(handler)))


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({}, "declares no table. Write tables ="),
        ({"with space": "id int"}, "cannot be a placeholder"),
        ({"a.b": "id int", "b": "id int"}, "each name once"),
        ({"a": "id int references {b}", "b": "id int"}, "Declare it before"),
        ({"t" * 60: "id int"}, "PostgreSQL keeps 63"),
    ],
)
def test_tables_that_cannot_be_are_refused(tables: Any, complaint: str) -> None:
    with refused(complaint):
        sql(on(Happened)(anew(writes)), tables)


@pytest.mark.parametrize("mark", [on(Happened, key="id"), on(Happened, when=absent)], ids=["key", "absent"])
def test_what_needs_a_row_is_refused_where_there_is_none(mark: Any) -> None:
    with refused("there is no row for it"):
        sql(mark(anew(writes)))
    with refused("there is no row for it"):

        class Made(Reactor, stream="S", subjects="s.{aggregate}"):
            happened = mark(anew(happened_plainly))


# Keywords and names


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"stream": None}, r"Made lacks stream=. Write class Made\(stream=…\)"),
        ({"subjects": None}, "Made lacks subjects="),
        ({"table": None, "key": None}, "Made lacks table=, key="),
        ({"stream": "a.b"}, "is no stream's name"),
        ({"subjects": "s.{order}"}, "subjects="),
        ({"sequence": "sorted"}, "sequence='sorted'. Write one of"),
        ({"effects": "later"}, "effects='later'"),
        ({"baseline": 0}, 'Write "first", "any" or a version from 1'),
        ({"baseline": True}, "baseline=True"),
        ({"baseline": 3, "sequence": "unordered"}, "Without order nothing begins at a version"),
        ({"revision": 0}, "Revisions count from 1"),
        ({"name": "a:b"}, "cannot be a consumer's name"),
        ({"name": "a/b"}, "cannot be a consumer's name"),
        ({"name": "a b"}, "cannot be a consumer's name"),
        ({"name": ""}, "is empty"),
        ({"name": "n" * 64}, "PostgreSQL keeps 63"),
        ({"formerly": ("a.b",)}, "cannot be a consumer's name"),
        ({"formerly": "Old"}, "formerly"),
        ({"table": "t" * 52}, "PostgreSQL keeps 63"),
        ({"table": "a.b.c"}, "Write table or schema.table"),
        ({"table": "orders__g2"}, "is a generation's"),
        ({"table": "a."}, "table '' is empty"),
        ({"indexes": (Index("nothing"),)}, "names no column"),
        ({"indexes": (Index("id", name="i" * 60),)}, "shortens it"),
        ({"indexes": (Index("id"), Index("id"))}, "gets the name of another"),
        ({"indexes": (Index("id", name="pkey"),)}, "gets the name of another"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_keyword_that_cannot_work_is_refused(keywords: dict[str, Any], complaint: str) -> None:
    with refused(complaint):
        projection(**keywords)


def test_an_index_without_columns_is_refused() -> None:
    with refused("names no column"):
        Index()


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        (lambda: Index("(lower(a))"), "has an expression and no name"),
        (lambda: Index("a", unique=True, using="hash"), "which an index using hash cannot be"),
    ],
)
def test_an_index_that_cannot_be_is_refused(index: Callable[[], Index], complaint: str) -> None:
    with refused(complaint):
        index()


def test_an_index_of_a_table_that_a_sql_projection_does_not_declare_is_refused() -> None:
    with refused("names no table of it"):

        class Misspelt(SqlProjection, stream="S", subjects="s.*", indexes={"total": [Index("a")]}):
            tables = {"totals": "a text primary key"}

            @on(Happened)
            async def happened(self, tx: Tx, event: Happened) -> None: ...


def test_two_classes_of_one_name_in_a_module_are_refused_and_a_reload_is_not() -> None:
    def make(qualname: str, module: str = "a.module", **keywords: str) -> None:
        namespace = {"__annotations__": {"id": str}, "__module__": module, "__qualname__": qualname}
        ProjectionMeta(
            "Twice", (Projection,), {**namespace, "happened": happened}, **{**KEYWORDS, **keywords}
        )

    make("Twice", table="twice")
    make("Twice", table="twice")
    make("Twice", "another.module", table="twice")
    with refused("two classes have the name 'Twice'"):
        make("Copied", table="twice_more")
    with refused("two classes have the table 'public.twice'"):
        make("Other", name="Other", table="public.twice")
    make("Elsewhere", name="Elsewhere", table="elsewhere.twice")


def test_an_app_checks_the_names_of_what_it_is_given() -> None:
    one, other = projection(), projection()
    check_distinct([one, one, definition(shop.OrderSummary)])
    with refused("two classes have the name 'Made'"):
        check_distinct([one, other])
    with refused("two classes have the table 'public.things'"):
        check_distinct([one, projection(name="Else")])


def test_a_refusal_is_one_of_the_projects_errors_and_a_type_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        projection(revision=0)
    assert isinstance(caught.value, ProjectionistError)
    assert isinstance(caught.value, TypeError)


class Foreign:
    """A class of another library: msgspec takes it as a type, and cannot read it."""


def several_keys(event: Happened) -> list[str]:
    return [event.id]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (lambda: "a", "a function of the event, or of"),
        (several_keys, r"returns list\[str\], and an event has one row"),
    ],
)
def test_a_key_that_would_fail_each_event_is_refused(key: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        on(Happened, key=key)


def test_a_key_may_be_whatever_can_be_called_with_the_event() -> None:
    for key in (str, attrgetter("id"), lambda event, more=1: event.id):
        on(Happened, key=key)


def returning(answer: Any) -> type:
    def happened(self: Any, event: Happened) -> Any: ...

    happened.__annotations__["return"] = answer
    keywords = {"stream": "S", "subjects": "s.*"}
    return new_class(
        "Answers", (Reactor,), keywords, lambda body: body.update(happened=on(Happened)(happened))
    )


@pytest.mark.parametrize("answer", [int, bool, str, dict[str, int], Note | int, bytes])
def test_a_handler_whose_answer_would_fail_each_event_is_refused(answer: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Answers\.happened returns .*no answer of a handler"):
        returning(answer)


@pytest.mark.parametrize(
    "answer", [None, Any, object, Note, Note | None, list[Note], Iterator[Note], tuple[Note, ...], "Unknown"]
)
def test_a_handler_may_answer_with_intents_or_nothing(answer: Any) -> None:
    assert definition(returning(answer)).handlers


@pytest.mark.parametrize("kind", [Foreign, list[Foreign], dict[str, Foreign | None], tuple[Foreign, ...]])
def test_a_field_of_an_event_that_nobody_can_read_is_refused(kind: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Odd\.line holds a Foreign, which cannot be read from JSON"):
        new_class(
            "Odd", (Event,), {"type": "it.is.odd"}, lambda body: body.update(__annotations__={"line": kind})
        )

"""Draws what hangs on what: streams, consumers, read models, intents and providers, in columns. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from projectionist.console.needs import consumer_path
from projectionist.outbox.intents.intent import options_of

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import ConsumerDefinition

TOP, STEP, HEIGHT = 34, 42, 30
LETTER = 7.2
"""So wide is a letter on average; what does not fit into a box is shortened in its middle."""


class MapColumn(NamedTuple):
    """One kind of things, and where it stands."""

    title: str
    x: int
    width: int


COLUMNS = (
    MapColumn("Streams", 0, 150),
    MapColumn("Consumers", 236, 184),
    MapColumn("Read models", 500, 160),
    MapColumn("Intents", 740, 140),
    MapColumn("Providers", 960, 140),
)
STREAM, CONSUMER, TABLE, INTENT, PROVIDER = range(len(COLUMNS))
Key = tuple[int, str]
"""The column of a thing, and its name."""


class MapPart(NamedTuple):
    """A box."""

    key: Key
    href: str
    tone: str
    """How it is; "" where that is not told."""
    y: int

    @property
    def column(self) -> MapColumn:
        """Return where it stands."""
        return COLUMNS[self.key[0]]

    @property
    def name(self) -> str:
        """Return its whole name."""
        return self.key[1]

    @property
    def label(self) -> str:
        """Return its name, shortened in the middle to what fits."""
        most = int((self.column.width - (36 if self.tone else 22)) / LETTER)
        if len(self.name) <= most:
            return self.name
        return f"{self.name[: most // 2]}…{self.name[-(most - most // 2 - 1) :]}"


class AppMap(NamedTuple):
    """Boxes, lines between them, and how high the picture is."""

    nodes: list[MapPart]
    edges: list[str]
    """As paths of SVG."""
    height: int


class MapLine(NamedTuple):
    """The same of one consumer, as words."""

    consumer: str
    stream: str
    tables: list[str]
    intents: list[tuple[str, str]]
    """Each with its provider."""


def map_lines(definitions: Iterable[ConsumerDefinition]) -> list[MapLine]:
    """Return the consumers with what they read, write and ask for; by stream, then by name."""
    lines = [
        MapLine(
            one.name,
            one.stream,
            [table.public.removeprefix("public.") for view in one.views for table in view.owned],
            [(options_of(intent).name, options_of(intent).provider) for intent in one.intents],
        )
        for one in definitions
    ]
    return sorted(lines, key=lambda line: (line.stream, line.consumer))


def app_map(
    lines: Sequence[MapLine], streams: Iterable[str], providers: Collection[str], tones: Mapping[Key, str]
) -> AppMap:
    """Return the picture; `streams` and `providers` that nobody uses are in it too. Each thing stands beside what leads
    to it."""
    links = _links(lines)
    keys = dict.fromkeys(
        [*((CONSUMER, line.consumer) for line in lines), *(end for link in links for end in link)]
    )
    keys |= dict.fromkeys([(STREAM, name) for name in streams] + [(PROVIDER, name) for name in providers])
    places = _placed(list(keys), links)
    nodes = [MapPart(key, _href(key, lines), tones.get(key, ""), places[key]) for key in keys]
    edges = [_path(places, start, end) for start, end in links]
    return AppMap(nodes, edges, max(places.values(), default=TOP) + STEP)


def _links(lines: Iterable[MapLine]) -> list[tuple[Key, Key]]:
    links: dict[tuple[Key, Key], None] = {}
    for line in lines:
        consumer = (CONSUMER, line.consumer)
        links[(STREAM, line.stream), consumer] = None
        links |= dict.fromkeys((consumer, (TABLE, table)) for table in line.tables)
        for intent, provider in line.intents:
            links[consumer, (INTENT, intent)] = None
            links[(INTENT, intent), (PROVIDER, provider)] = None
    return list(links)


def _placed(keys: Sequence[Key], links: Iterable[tuple[Key, Key]]) -> dict[Key, int]:
    """Return how low each thing stands: consumers one below the other, all else at the middle of what it hangs on."""
    beside: dict[Key, list[Key]] = defaultdict(list)
    for start, end in links:
        if start[0] == STREAM:
            beside[start].append(end)
        else:
            beside[end].append(start)
    places: dict[Key, int] = {}
    for column in (CONSUMER, STREAM, TABLE, INTENT, PROVIDER):
        lowest = TOP
        here = [key for key in keys if key[0] == column]
        wanted = {key: _middle([places[one] for one in beside[key] if one in places]) for key in here}
        for key in sorted(here, key=lambda one: (wanted[one] is None, wanted[one] or 0)):
            places[key] = max(lowest, wanted[key] or lowest)
            lowest = places[key] + STEP
    return places


def _middle(found: Sequence[int]) -> int | None:
    return sum(found) // len(found) if found else None


def _path(places: Mapping[Key, int], start: Key, end: Key) -> str:
    left, right = COLUMNS[start[0]], COLUMNS[end[0]]
    x1, y1 = left.x + left.width, places[start] + HEIGHT // 2
    x2, y2 = right.x, places[end] + HEIGHT // 2
    half = (x1 + x2) / 2
    return f"M{x1} {y1}C{half:g} {y1} {half:g} {y2} {x2} {y2}"


def _href(key: Key, lines: Iterable[MapLine]) -> str:
    """Return the page that says more of it: of a table and an intent, that of who makes it."""
    column, name = key
    if column == CONSUMER:
        return consumer_path(name)
    if column == TABLE:
        return next(consumer_path(line.consumer) for line in lines if name in line.tables)
    if column == PROVIDER:
        return f"/outbox?{urlencode({'provider': name})}"
    return f"/outbox?{urlencode({'intent': name})}" if column == INTENT else "/streams"

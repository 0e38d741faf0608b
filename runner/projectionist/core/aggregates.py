"""An aggregate has one spelling, `type/id`, wherever somebody names one: publishing, in the outbox, waiting."""

from __future__ import annotations

from projectionist.core.errors import ProjectionistError


class AggregateError(ProjectionistError, ValueError):
    """The text does not name an aggregate as `type/id`."""


def parted(aggregate: str) -> tuple[str, str]:
    """Return type and id of an aggregate that is written `type/id`. The type is empty only where that is said: "/7"."""
    if not isinstance(aggregate, str):
        raise AggregateError(
            f"the aggregate {aggregate!r:.80} is no text but a {type(aggregate).__name__}",
            remedy='Write type/id, like f"order/{order}"',
        )
    kind, slash, identity = aggregate.partition("/")
    if not slash:
        raise AggregateError(
            f"the aggregate {aggregate!r} does not say its type",
            remedy=f"Write type/id, like 'order/{aggregate}', or '/{aggregate}' for one that has no type",
        )
    if not identity:
        raise AggregateError(f"the aggregate {aggregate!r} has no id", remedy="Write type/id, like 'order/7'")
    return kind, identity

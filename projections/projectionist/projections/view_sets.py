"""ViewSet: several views that one consumer feeds, from one reading and in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from projectionist.core.errors import DefinitionError
from projectionist.projections.compiled.class_options import (
    Baseline,
    ClassOptions,
    Decrypt,
    Effects,
    Sequencing,
)
from projectionist.projections.compiled.view_set import compiled_set
from projectionist.projections.handler_marks import ATTRIBUTE
from projectionist.projections.stream import Stream, resolved


class ViewSet:
    """Several views from one reading: `class Shop(ViewSet, stream="SHOP", subjects="…", views=[Orders, Lines])`.

    One inbox, one position an aggregate and one transaction for all views, so that one statement that joins them sees
    one version. What an event does, it does in all of them or in none. `views` are Projections and Reactors without
    `stream=`; `sequence`, `baseline`, `effects` and `decrypt` are the set's, `revision` is each view's.
    """

    __slots__ = ()

    def __init_subclass__(
        cls,
        *,
        stream: str | Stream | None = None,
        subjects: str | tuple[str, ...] | None = None,
        views: Sequence[type] = (),
        name: str | None = None,
        formerly: tuple[str, ...] = (),
        sequence: Sequencing = "contiguous",
        baseline: Baseline = "first",
        effects: Effects = "now",
        decrypt: Decrypt | None = None,
    ) -> None:
        super().__init_subclass__()
        given = {"stream": stream, "subjects": subjects}
        policy = resolved(cls.__name__, {word: value for word, value in given.items() if value is not None})
        if missing := [word for word in ("stream", "subjects") if not policy.get(word)]:
            raise DefinitionError(
                f"{cls.__name__} lacks {', '.join(f'{word}=' for word in missing)}",
                remedy=f'Write class {cls.__name__}(ViewSet, stream="…", subjects="…", views=[…])',
            )
        options = ClassOptions(
            **policy,
            name=name,
            formerly=formerly,
            sequence=sequence,
            baseline=baseline,
            effects=effects,
            decrypt=decrypt,
        )
        setattr(cls, ATTRIBUTE, compiled_set(cls, options, views))

"""Whether a database is the one its schema was at home in, and whose a durable is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from projectionist.core.postgres.database_identity import Likeness, Owner, Place, likeness
from projectionist.runner.jetstream.durable_owner import (
    DurableMark,
    DurableNotOurs,
    DurableOwner,
    lacks,
    refuse,
    whose,
)

HOME = Place(system="71", timeline=1, database=16384, name="shop", home=16400)
OURS = DurableMark(Owner("projectionist", HOME, "t1", "t0"), 3, "Orders")


def place(**other: Any) -> Place:
    return msgspec.structs.replace(HOME, **other)


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (place(), Likeness.SAME),
        (place(name="shop_of_yesterday"), Likeness.RENAMED),
        (place(system=None), Likeness.SAME),
        (place(system=None, name="renamed"), Likeness.RENAMED),
        (place(timeline=2), Likeness.MOVED),
        (place(timeline=2, system=None), Likeness.MOVED),
        (place(database=17000, home=17010), Likeness.MOVED),
        (place(home=17010), Likeness.MOVED),
        (place(home=17010, beside=True), Likeness.OTHER),
        (place(database=17000, name="staging"), Likeness.OTHER),
        (place(system="72"), Likeness.OTHER),
        (place(system="72", timeline=5), Likeness.OTHER),
        (place(system=None, home=17010), Likeness.OTHER),
        (place(system=None, database=17000), Likeness.OTHER),
    ],
    ids=str,
)
def test_how_a_place_is_to_the_one_a_schema_was_at_home_in(here: Place, expected: Likeness) -> None:
    assert likeness(HOME, here) is expected


def test_a_cluster_that_may_be_named_only_now_is_the_same_and_remembered() -> None:
    assert likeness(place(system=None), HOME) is Likeness.RENAMED
    assert likeness(place(system=None), place(home=17010)) is Likeness.OTHER


def bears(
    place: Place = HOME, sign: str = "t9", schema: str = "projectionist", number: int = 3
) -> dict[str, str]:
    return DurableMark(Owner(schema, place, sign, None), number, "Orders").metadata()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, DurableOwner.UNNAMED),
        ({"team": "shop"}, DurableOwner.UNNAMED),
        (bears(sign="t1"), DurableOwner.OURS),
        (bears(sign="t0"), DurableOwner.FORMER),
        (bears(), DurableOwner.THEIRS),
        (bears(place(timeline=2)), DurableOwner.THEIRS),
        (bears(place(timeline=0)), DurableOwner.FORMER),
        (bears(place(timeline=0, system="72")), DurableOwner.THEIRS),
        (bears(place(timeline=0, database=17000)), DurableOwner.THEIRS),
        (bears(place(timeline=0), schema="other"), DurableOwner.THEIRS),
        (bears(place(timeline=0), number=4), DurableOwner.THEIRS),
        (bears() | {"projectionist.timeline": "old"}, DurableOwner.THEIRS),
    ],
)
def test_whose_a_durable_is(found: dict[str, str], expected: DurableOwner) -> None:
    assert whose(OURS, found) is expected


def test_what_others_wrote_into_a_durable_stays_and_what_is_written_lacks_nothing() -> None:
    written = OURS.metadata({"team": "shop", "_nats.ver": "2.12", "projectionist.owner": "t0"})

    assert (written["team"], written["projectionist.owner"]) == ("shop", "t1")
    assert "_nats.ver" not in written
    assert not lacks(OURS, written)
    assert lacks(OURS, written | {"projectionist.name": "before"})


def test_a_refusal_names_both_databases_and_what_to_do() -> None:
    with pytest.raises(DurableNotOurs, match=r"prod .* cluster 99") as refused:
        refuse(OURS, "SHOP", "Orders-1", bears(place(system="99", name="prod")))

    assert "adopt --database" in str(refused.value)
    refuse(OURS, "SHOP", "Orders-1", OURS.metadata())

"""What every contender has to bear, one thing a trial."""

from __future__ import annotations

from tests.support.rivals.load import Hardship

HARDSHIPS = (
    Hardship(name="killed", says="a process is killed every second and a half", kills=10),
    Hardship(name="again", says="every fifth event is published twice; kills", again=0.2, kills=5),
    Hardship(
        name="late", says="in every fifth order the payment comes before the note; kills", late=0.2, kills=5
    ),
    Hardship(
        name="odd",
        says="one order in ten has a note that only the next release digests; kills",
        odd=0.1,
        kills=5,
    ),
    Hardship(
        name="unsaid",
        says="the provider sends one receipt in seven without saying so and refuses one in eleven; kills",
        unsaid=True,
        kills=5,
    ),
    Hardship(
        name="servers", says="PostgreSQL is killed, then NATS; both come back with their data", servers=True
    ),
)

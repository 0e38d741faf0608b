"""An app one of whose events ends the process that decodes it. `HELD_STREAM` names the stream."""

from __future__ import annotations

import os
import signal

from tests.support.servers import Stream

from projectionist.projections import Event, Projection, on
from projectionist.runner import App

STREAM = Stream(os.environ.get("HELD_STREAM", "UNNAMED"))


class Noted(Event, type="order.noted"):
    """Some of it cannot even be decoded."""

    text: str

    def __post_init__(self) -> None:
        if self.text == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def notes(stream: Stream) -> type[Projection]:
    """One row a note."""

    class Notes(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="notes",
        key="note",
    ):
        note: str
        text: str = ""

        @on(Noted)
        def noted(self, event: Noted) -> None:
            self.text = event.text

    return Notes


app = App(projections=[notes(STREAM)])

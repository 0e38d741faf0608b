"""A batch's place in the row of batches that one process has open for one consumer."""

from __future__ import annotations

import anyio


class BatchOrder:
    """A batch claims while the one before it is past its claims, and locks positions when that one has its own.

    So versions are met in order, and the database works on two batches at once. Nobody waits in a circle: who waits
    to begin holds nothing, who waits to lock holds claims alone, and the one before it wants no more of those.
    A batch that is rolled back gives its turn up, since on its way back it may want what the next one has claimed;
    then the two are like two processes.
    """

    def __init__(self, before: BatchOrder | None = None) -> None:
        self._before = before
        self._claimed = anyio.Event()
        self._locked = anyio.Event()

    async def begin(self) -> None:
        """Wait until the batch before has claimed."""
        if self._before is not None:
            await self._before._claimed.wait()  # noqa: SLF001  another Turn

    def claimed(self) -> None:
        """Let the next batch begin."""
        self._claimed.set()

    async def lock(self) -> None:
        """Wait until the batch before holds its positions."""
        if self._before is not None:
            await self._before._locked.wait()  # noqa: SLF001
            self._before = None

    def locked(self) -> None:
        """Let the next batch lock; the database makes it wait where it needs the same ones."""
        self._locked.set()

    def over(self) -> None:
        """Let the next batch go on, whatever became of this one, and wait for nobody from now on."""
        self._before = None
        self._claimed.set()
        self._locked.set()

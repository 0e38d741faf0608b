"""Running: what works beside a program of somebody's own, and how it is."""

from __future__ import annotations

from projectionist.core.postgres.error_text import said
from projectionist.core.telemetry.health_server import Health


class Running:
    """What runs beside a program's own work, for whoever asks whether it is ready."""

    def __init__(self) -> None:
        self._parts: list[Health] = []
        self._end: list[str] | None = None

    @property
    def ready(self) -> bool:
        """Return whether events flow now, here or, where newer code has taken over, in another process."""
        return not self.why

    @property
    def why(self) -> list[str]:
        """Return why it is not ready: what has not begun, a server that is away, a consumer that cannot go on."""
        if self._end is not None:
            return self._end
        return list(dict.fromkeys(reason for part in self._parts for reason in part.hindrances()))

    @property
    def superseded(self) -> list[str]:
        """Return what newer code has taken over: it has ended here, and is no reason not to be ready."""
        return [reason for part in self._parts for reason in part.superseded()]

    def part(self) -> Health:
        """Add a part, which says for itself how it is."""
        self._parts.append(health := Health())
        return health

    @property
    def ended(self) -> bool:
        """Return whether nothing runs any more; `why` says for which error."""
        return self._end is not None

    def end(self, error: BaseException | None) -> None:
        """Note that nothing runs any more."""
        self._end = ["it has ended"] if error is None else [said(error)]

"""The log of a run: one JSON line per epoch, and a tracker if one is given."""

import json
import logging
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from openset import _io, trackers
from openset._types import ArtefactError

_LOG = logging.getLogger(__name__)


class Log:
    """The lines of ``log.jsonl``, in memory only if there is no folder.

    Examples
    --------
    >>> log = Log(None)
    >>> log.add({"epoch": 0, "loss": 1.5})
    >>> log.lines
    [{'epoch': 0, 'loss': 1.5}]
    """

    def __init__(
        self, folder: Path | None, tracker: trackers.Tracker | None = None
    ) -> None:
        self.path = None if folder is None else folder / "log.jsonl"
        self.lines: list[dict[str, Any]] = []
        self._tracker = tracker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tracker is not None:
            self._tracker.close(failed=kind is not None)

    def keep(self, epochs: int) -> None:
        """Read the lines of the first `epochs` epochs, and drop later ones.

        If a run was killed, its log may be ahead of the checkpoint: those epochs are
        trained again.
        """
        self.lines = []
        if self.path is not None and self.path.exists():
            found = self.path.read_text("utf-8", errors="replace").splitlines()
            lines = [self._read(number, found) for number in range(len(found))]
            self.lines = [line for line in lines if line.get("epoch", epochs) < epochs]
        if self.path is not None:
            text = "".join(json.dumps(line) + "\n" for line in self.lines)
            _io.put(self.path, text)

    def _read(self, number: int, lines: list[str]) -> dict[str, Any]:
        try:
            found = json.loads(lines[number])
            if isinstance(found, dict) and isinstance(found.get("epoch"), int):
                return found
        except ValueError:
            pass
        if number == len(lines) - 1:  # cut off by the kill
            return {}
        msg = (
            f"train: line {number + 1} of {self.path} is damaged. Delete the line to "
            "continue without it"
        )
        raise ArtefactError(msg)

    def add(self, line: dict[str, Any]) -> None:
        """Append the line of an epoch."""
        self.lines.append(line)
        _LOG.info("%s: %s", self.path or "training", line)
        if self.path is not None:
            with _io.appending(self.path) as stream:
                stream.write(f"{json.dumps(line)}\n".encode())
        if self._tracker is not None:
            values = trackers.numbers(line)
            self._tracker.log(values, step=int(values.pop("epoch")))

    def conclude(self, values: dict[str, float]) -> None:
        """Pass the results of the last epoch to the tracker."""
        if self._tracker is not None:
            self._tracker.log(values, step=self.lines[-1]["epoch"] if self.lines else 0)

"""The log of a run: one JSON line per epoch, and TensorBoard if asked for."""

import json
from pathlib import Path
from typing import Any

from openset import _io
from openset._types import ArtefactError


class Log:
    """The lines of ``log.jsonl``, in memory only if there is no folder.

    Examples
    --------
    >>> log = Log(None)
    >>> log.add({"epoch": 0, "loss": 1.5})
    >>> log.lines
    [{'epoch': 0, 'loss': 1.5}]
    """

    def __init__(self, folder: Path | None, *, tensorboard: bool = False) -> None:
        self.path = None if folder is None else folder / "log.jsonl"
        self.lines: list[dict[str, Any]] = []
        self._board: Any = None
        if tensorboard and folder is not None:
            _io.optional("train.fit", "tensorboard", name="tensorboard")
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # slow

            self._board = SummaryWriter(str(folder / "tensorboard"))

    def keep(self, epochs: int) -> None:
        """Read the lines of the first `epochs` epochs, and drop later ones.

        After a kill the log may be ahead of the checkpoint: those epochs are trained
        again.
        """
        self.lines = []
        if self.path is not None and self.path.exists():
            found = self.path.read_text("utf-8", errors="replace").splitlines()
            lines = [self._read(number, found) for number in range(len(found))]
            self.lines = [line for line in lines if line.get("epoch", epochs) < epochs]
        if self.path is not None:
            text = "".join(json.dumps(line) + "\n" for line in self.lines)
            _io.write(self.path, lambda stream: stream.write(text.encode()))

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
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        if self._board is not None:
            for name, value in line.items():
                if name != "epoch" and isinstance(value, int | float):
                    self._board.add_scalar(name, value, line["epoch"])
            self._board.flush()

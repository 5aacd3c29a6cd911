"""A sample of the traffic, written to a folder for ``openset watch``."""

import logging
import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset import _check, _locks
from openset.outputs import Outputs

ROWS = 4096
"""Largest number of samples in a file."""

_PREFIX, _SUFFIX = "traffic-", ".npz"
_MOST_KINDS = 4  # of requests: logits, features, both; of other widths
_LOG = logging.getLogger("uvicorn.error")


class Traffic:
    """Keeps some of the samples and writes them as ``traffic-000001.npz`` and so on.

    Files are `Outputs` of at most 4096 samples. A file is written when it is full, and
    when the server stops. Several processes may share a folder.

    Parameters
    ----------
    folder
        Folder to write to; created if it does not exist.
    rate
        Probability with which a sample is kept.
    most
        Number of files kept; the oldest are deleted.
    seed
        Random seed of the choice; None: not reproducible.
    """

    def __init__(
        self, folder: Path, *, rate: float, most: int, seed: int | None = None
    ) -> None:
        caller = "openset.serve.app"
        _check.number(caller, "log_rate", rate, low=0, high=1, open_low=True)
        _check.positive_int(caller, "log_files", most)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._rate, self._most = folder, rate, most
        self._choice = np.random.default_rng(seed)
        self._lock = threading.Lock()
        # Requests with and without features do not fit into one file.
        self._kept: dict[tuple[tuple[str, int], ...], list[Outputs]] = {}

    def add(self, outputs: Outputs, ids: NDArray[np.str_] | None) -> None:
        """Keep some samples of a request; writes a file if there are enough."""
        with self._lock:
            rows = np.flatnonzero(self._choice.random(len(outputs)) < self._rate)
            arrays = {
                name: np.asarray(array)[rows]
                for name in ("logits", "features")
                if (array := getattr(outputs, name)) is not None
            }
            kind = tuple((name, array.shape[1]) for name, array in arrays.items())
            is_new = kind not in self._kept
            if not rows.size or (is_new and len(self._kept) == _MOST_KINDS):
                return
            names = np.full(len(outputs), "") if ids is None else ids
            parts = self._kept.setdefault(kind, [])
            step = outputs.input_step
            about = {"input_step": step, "invalid": outputs.invalid}
            parts.append(Outputs(**arrays, ids=names[rows], **about))
            if sum(map(len, parts)) >= ROWS:
                joined = Outputs.concat(parts)
                n_whole = len(joined) // ROWS * ROWS
                for start in range(0, n_whole, ROWS):
                    self._write(joined.take(slice(start, start + ROWS)))
                is_rest = n_whole < len(joined)
                self._kept[kind] = (
                    [joined.take(slice(n_whole, None))] if is_rest else []
                )

    def close(self) -> None:
        """Write what is left."""
        with self._lock:
            for parts in self._kept.values():
                if parts:
                    self._write(Outputs.concat(parts))
            self._kept.clear()

    def _write(self, outputs: Outputs) -> None:
        """Write a file and delete the oldest; a full disk costs these rows alone."""
        try:
            with _locks.locked(self._folder / ".lock"):
                files = self._files()
                number = max(files, default=0) + 1
                path = self._folder / f"{_PREFIX}{number:06d}{_SUFFIX}"
                outputs.save(path)  # to a temporary name, then renamed
                for old in sorted(files)[: max(0, len(files) + 1 - self._most)]:
                    files[old].unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("The traffic log lost %d samples: %s", len(outputs), error)

    def _files(self) -> dict[int, Path]:
        """Return the files of the log by their numbers; others are not touched."""
        found = self._folder.glob(f"{_PREFIX}*{_SUFFIX}")
        numbers = {path: path.stem.removeprefix(_PREFIX) for path in found}
        return {
            int(number): path
            for path, number in numbers.items()
            if number.isascii() and number.isdecimal()
        }

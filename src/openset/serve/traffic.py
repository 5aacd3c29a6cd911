"""A sample of the traffic, written to a folder for ``openset watch``."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check
from openset.outputs import Outputs

ROWS, FILES = 4096, 100
"""Largest number of samples in a file, and of files: the oldest are deleted."""

_MOST_KINDS = 4
_LOG = logging.getLogger("uvicorn.error")


class Traffic:
    """Keeps some of the samples and writes them as ``traffic-*.npz``.

    Files are `Outputs`, and sort by the time they were written. A file is written when
    it is full, and when the server stops. Several processes may share a folder.
    """

    def __init__(self, folder: Path, *, rate: float) -> None:
        low: Any = {"low": 0, "high": 1, "open_low": True}
        _check.number("openset.serve.app", "log_rate", rate, **low)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._rate = folder, rate
        self._choice = np.random.default_rng()
        self._lock = threading.Lock()
        # Requests with and without features do not fit into one file.
        self._kept: dict[Any, list[Outputs]] = {}

    def add(self, outputs: Outputs, ids: Sequence[Any] | None) -> None:
        """Keep some samples of a request."""
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
            names = ["" if ids is None else str(ids[i])[:256] for i in rows.tolist()]
            about: Any = {"input_step": outputs.input_step, "invalid": outputs.invalid}
            parts = self._kept.setdefault(kind, [])
            parts.append(Outputs(**arrays, ids=names, **about))
            if sum(map(len, parts)) >= ROWS:
                self._write(self._kept.pop(kind))

    def close(self) -> None:
        """Write what is left."""
        with self._lock:
            for parts in self._kept.values():
                self._write(parts)
            self._kept.clear()

    def _write(self, parts: list[Outputs]) -> None:
        """Write files and delete the oldest; a full disk costs these rows alone."""
        outputs = Outputs.concat(parts)
        try:
            for start in range(0, len(outputs), ROWS):
                # By nanoseconds and process: no two files have the same name.
                name = f"traffic-{time.time_ns():020}-{os.getpid()}.npz"
                outputs.take(slice(start, start + ROWS)).save(self._folder / name)
            for old in sorted(self._folder.glob("traffic-*-*.npz"))[:-FILES]:
                old.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("The traffic log lost %s samples: %s", len(outputs), error)

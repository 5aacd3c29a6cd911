"""Rows that arrive batch by batch: kept in memory, or appended to ``.npy`` files.

A ``.npy`` header states the number of rows, which is known only at the end. Ours is
padded to a fixed length, so that it can be overwritten.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _io

_HEADER_BYTES = 192
_STATE = "progress.json"


class RowLists:
    """Batches of named arrays, kept in lists."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def append(self, batch: dict[str, NDArray[Any]]) -> None:
        """Take one batch."""
        for name, array in batch.items():
            self._parts.setdefault(name, []).append(array)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, one row per sample."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}


class RowFiles:
    """Batches of named arrays, appended to one ``.npy`` each.

    `provenance` holds hashes of what the run was started with.

    After every batch ``progress.json`` states the number of complete rows: what was
    written of an incomplete batch is cut off when the run is resumed.
    """

    def __init__(self, folder: Path, provenance: dict[str, Any]) -> None:
        self._folder = folder
        self.provenance = provenance
        self._shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.rows = self.batches = 0

    @classmethod
    def reopen(cls, folder: Path) -> "RowFiles | None":
        """Continue an interrupted run; None if there is nothing to continue."""
        try:
            state = json.loads((folder / _STATE).read_text("utf-8"))
        except (OSError, ValueError):
            for file in folder.iterdir():  # how many rows are complete is not known
                file.unlink()
            return None
        for left in folder.glob(".*"):  # of a run that was killed while it wrote
            left.unlink()
        files = cls(folder, state["provenance"])
        files.rows, files.batches = state["rows"], state["batches"]
        files._shapes = {
            name: (dtype, tuple(shape))
            for name, (dtype, shape) in state["arrays"].items()
        }
        for name in files._shapes:
            with files._path(name).open("r+b") as stream:
                stream.truncate(_HEADER_BYTES + files.rows * files._row_bytes(name))
        return files

    def stored(self, name: str, rows: slice) -> NDArray[Any]:
        """Read back complete rows of one array."""
        dtype, shape = self._shapes[name]
        count = (rows.stop - rows.start) * int(np.prod(shape, dtype=int))
        start = _HEADER_BYTES + rows.start * self._row_bytes(name)
        found = np.fromfile(self._path(name), dtype, count, offset=start)
        return found.reshape(-1, *shape)

    def has(self, name: str) -> bool:
        """Return whether an array of this name is being written."""
        return name in self._shapes

    def append(self, batch: dict[str, NDArray[Any]]) -> None:
        """Take one batch: write the rows, then that they are complete."""
        n = 0
        for name, array in batch.items():
            shape = (array.dtype.str, array.shape[1:])
            n = array.shape[0]
            if self._shapes.setdefault(name, shape) != shape:
                was, now = self._shapes[name], shape
                msg = (
                    f"extract: {name} must keep dtype and width, got {now} after {was}"
                )
                raise ValueError(msg)
            with _io.appending(self._path(name)) as stream:
                if stream.tell() == 0:
                    stream.write(self._header(name, 0))
                stream.write(np.ascontiguousarray(array).tobytes())
        self.rows += n
        self.batches += 1
        self._note()

    def _note(self) -> None:
        state = {
            "provenance": self.provenance,
            "rows": self.rows,
            "batches": self.batches,
            "arrays": self._shapes,
        }
        _io.put(self._folder / _STATE, json.dumps(state))

    def close(self) -> None:
        """State the number of rows in every header; the files are complete."""
        for name in self._shapes:
            with self._path(name).open("r+b") as stream:
                stream.write(self._header(name, self.rows))

    def forget(self) -> None:
        """Remove the number of complete rows: there is nothing to resume any more."""
        (self._folder / _STATE).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npy"

    def _row_bytes(self, name: str) -> int:
        dtype, shape = self._shapes[name]
        return int(np.dtype(dtype).itemsize * np.prod(shape, dtype=int))

    def _header(self, name: str, rows: int) -> bytes:
        dtype, shape = self._shapes[name]
        facts = {"descr": dtype, "fortran_order": False, "shape": (rows, *shape)}
        start = np.lib.format.magic(1, 0)
        length = _HEADER_BYTES - len(start) - 2
        text = repr(facts).encode("latin1").ljust(length - 1) + b"\n"
        return start + length.to_bytes(2, "little") + text

"""Outputs from batches, which are kept in memory or appended to ``.npy`` files."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.outputs import Invalid, Outputs, put_about, replacing

Arrays = dict[str, NDArray[Any]]


def gather(
    batches: Iterable[dict[str, Any]],
    *,
    out: str | Path | None = None,
    groups: Any = None,
    ids: Any = None,
    unknown: bool = False,
    invalid: Invalid = "error",
    **about: Any,
) -> Outputs:
    """Put batches together as :class:`openset.Outputs`.

    Parameters
    ----------
    batches
        Arrays of each batch by name (logits, features), perhaps with labels and ids.
    **about
        Further fields of the outputs: weight, bias, classes, input_step.

    The others are those of :func:`openset.extract.extract`.
    """
    rows = _Rows()
    if out is None:
        fields = _filled(rows, batches, groups, ids, about, unknown=unknown)
        return Outputs(**rows.arrays(), **fields, invalid=invalid)
    with replacing(Path(out), caller="extract") as folder:
        with ExitStack() as rows.files:  # closes all of them, whatever happens
            rows.folder = folder
            fields = _filled(rows, batches, groups, ids, about, unknown=unknown)
            rows.finish()
        for name in [one for one, x in fields.items() if isinstance(x, np.ndarray)]:
            np.save(folder / f"{name}.npy", fields.pop(name), allow_pickle=False)
        put_about(folder, fields)
        Outputs.load(folder, invalid="keep")  # raises for groups of another length
    return Outputs.load(Path(out), invalid=invalid)


def _filled(  # as gather has them
    rows: "_Rows",
    batches: Iterable[dict[str, Any]],
    groups: Any,
    ids: Any,
    about: dict[str, Any],
    *,
    unknown: bool,
) -> dict[str, Any]:
    """Take all batches; return what is not one row per sample of them."""
    names: list[Any] = []
    for batch in batches:
        labels, more = batch.pop("labels", None), batch.pop("ids", None)
        n = len(next(iter(batch.values())))
        labels = np.full(n, UNKNOWN) if unknown else labels
        if labels is not None:
            labels = _check.labels("extract", "labels", np.asarray(labels), lowest=-1)
            _check.same_length("extract", {"inputs": n, "labels": labels.size})
            batch["labels"] = labels
        names.extend(() if more is None else more)
        rows.append(n, batch)
    if not rows.n:
        _check.fail("extract", "loader", "non-empty", "no sample")
    groups = [groups] * rows.n if isinstance(groups, str) else groups
    given = {"groups": groups, "ids": (names or None) if ids is None else ids}
    return about | {
        name: _check.names("extract", name, values)
        for name, values in given.items()
        if values is not None
    }


class _Rows:
    """Batches of named arrays: in lists, or each name appended to a ``.npy`` file.

    NumPy pads the header of a file, so that the number of its rows, which is known
    only at the end, can be written over.
    """

    folder: Path | None = None
    files: ExitStack

    def __init__(self) -> None:
        self.n = 0
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._kinds: dict[str, Any] = {}
        self._streams: dict[str, IO[bytes]] = {}

    def append(self, n: int, batch: Arrays) -> None:
        """Take one batch."""
        for name, array in batch.items():
            kind = array.dtype, array.shape[1:]
            if self._kinds.setdefault(name, kind) != kind:
                _check.fail("extract", name, f"{self._kinds[name]} as before", kind)
            if self.folder is None:
                self._parts.setdefault(name, []).append(array)
                continue
            if name not in self._streams:
                stream = (self.folder / f"{name}.npy").open("wb")
                self._streams[name] = self.files.enter_context(stream)
                self._head(name)
            self._streams[name].write(np.ascontiguousarray(array).tobytes())
        self.n += n

    def finish(self) -> None:
        """Write the number of rows into the files."""
        for name, stream in self._streams.items():
            stream.seek(0)
            self._head(name)

    def _head(self, name: str) -> None:
        dtype, shape = self._kinds[name]
        facts = {"descr": dtype.str, "fortran_order": False, "shape": (self.n, *shape)}
        npy.write_array_header_1_0(self._streams[name], facts)

    def arrays(self) -> Arrays:
        """Return the arrays that are in lists, one row per sample."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}

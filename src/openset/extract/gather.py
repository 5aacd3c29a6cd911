"""Outputs from batches, which are kept in memory or appended to ``.npy`` files."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN
from openset.outputs import Invalid, Outputs, WithGaps, put_about, replacing

Arrays = dict[str, NDArray[Any]]


class Made(NamedTuple):
    """What a network makes of a batch: arrays by name, and what the batch says."""

    arrays: Arrays
    labels: Any = None
    ids: Sequence[Any] | None = None


class Forward(Protocol):
    """Runs a network on batches."""

    def __call__(self, batch: Any) -> Made:
        """Run one batch."""

    def about(self) -> dict[str, Any]:
        """After the last one: weight and bias of the last layer, or `layers`."""


def gather(
    batches: Iterable[Any],
    forward: Forward,
    *,
    out: str | Path | None = None,
    groups: str | Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    unknown: bool = False,
    invalid: Invalid = "error",
    **fields: Any,
) -> Outputs:
    """Run a network on batches; put their rows together as :class:`openset.Outputs`.

    The arguments are those of :func:`openset.extract.extract`; `fields` are further
    ones of the outputs. A batch may be a :class:`openset.outputs.WithGaps`.
    """
    if out is None:
        rows = _Rows()
        _fill(rows, batches, forward, unknown=unknown)
        fields |= forward.about() | _names(rows, groups, ids)
        return Outputs(**rows.arrays(), **fields, invalid=invalid)
    path = Path(out)
    with replacing(path, caller="extract") as folder:
        with _Files(folder) as rows:
            _fill(rows, batches, forward, unknown=unknown)
        about = forward.about() | _names(rows, groups, ids)
        for name, value in about.items():
            if isinstance(value, np.ndarray):
                np.save(folder / f"{name}.npy", value, allow_pickle=False)
            else:
                fields[name] = value
        put_about(folder, fields)
        Outputs.load(folder, invalid="keep")  # raises for groups of another length
    return Outputs.load(path, invalid=invalid)


def _fill(
    rows: "_Rows", batches: Iterable[Any], forward: Forward, *, unknown: bool
) -> None:
    for item in batches:
        gaps = item if isinstance(item, WithGaps) else None
        made = forward(item if gaps is None else gaps.batch)
        arrays = made.arrays if gaps is None else gaps.filled(made.arrays)
        n = len(next(iter(arrays.values())))
        labels = np.full(n, UNKNOWN) if unknown else made.labels
        if labels is not None:
            labels = _check.labels("extract", "labels", np.asarray(labels), lowest=-1)
            _check.same_length("extract", {"inputs": n, "labels": labels.size})
            if "logits" in arrays:
                _check_range(labels, arrays["logits"].shape[1])
            arrays["labels"] = labels
        rows.append(arrays, made.ids)
    if not rows.n:
        _check.fail("extract", "loader", "non-empty", "no sample")


def _check_range(labels: NDArray[np.int64], n_classes: int) -> None:
    if labels.max(initial=UNKNOWN) < n_classes:
        return
    rule = f"-1 or 0..{n_classes - 1}, as the model has {n_classes} outputs"
    remedy = (
        "For samples of none of its classes use unknown=True. Otherwise number the "
        "labels in the order of its outputs"
    )
    if n_classes == 1:
        remedy += (
            ". If one output z stands for two classes, give "
            "Outputs(logits=numpy.stack([-z, z], axis=1) / 2, ...)"
        )
    _check.fail("extract", "labels", rule, int(labels.max()), remedy)


def _names(
    rows: "_Rows", groups: str | Sequence[str] | None, ids: Sequence[str] | None
) -> Arrays:
    """Return groups and ids of all samples."""
    groups = [groups] * rows.n if isinstance(groups, str) else groups
    ids = (rows.ids or None) if ids is None else ids
    given: Mapping[str, Any] = {"groups": groups, "ids": ids}
    return {
        name: _check.names("extract", name, values)
        for name, values in given.items()
        if values is not None
    }


class _Rows:
    """Batches of named arrays, kept in lists."""

    def __init__(self) -> None:
        self.n = 0
        self.ids: list[Any] = []
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._kinds: dict[str, Any] = {}

    def append(self, batch: Arrays, ids: Sequence[Any] | None) -> None:
        """Take one batch."""
        for name, array in batch.items():
            kind = array.dtype, array.shape[1:]
            was = self._kinds.setdefault(name, kind)
            if kind != was:
                _check.fail("extract", name, f"{was} as before", kind)
            self._put(name, array)
        self.n += len(next(iter(batch.values())))
        self.ids.extend(() if ids is None else ids)

    def _put(self, name: str, array: NDArray[Any]) -> None:
        self._parts.setdefault(name, []).append(array)

    def arrays(self) -> Arrays:
        """Return the arrays, one row per sample."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}


class _Files(_Rows):
    """Batches of named arrays, appended to one ``.npy`` file each.

    NumPy pads the header of a file, so that the number of its rows, which is known
    only at the end, can be written over.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._streams: dict[str, IO[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:  # closes all files, whatever happened
            for name, stream in self._streams.items():
                stream.seek(0)
                self._head(name, self.n)

    def _put(self, name: str, array: NDArray[Any]) -> None:
        if name not in self._streams:
            stream = (self._folder / f"{name}.npy").open("wb")
            self._streams[name] = self._stack.enter_context(stream)
            self._head(name, 0)
        self._streams[name].write(np.ascontiguousarray(array).tobytes())

    def _head(self, name: str, n: int) -> None:
        dtype, shape = self._kinds[name]
        facts = {"descr": dtype.str, "fortran_order": False, "shape": (n, *shape)}
        npy.write_array_header_1_0(self._streams[name], facts)

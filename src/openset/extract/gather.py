"""Outputs from batches, which are kept in memory or appended to ``.npy`` files."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from openset import _check, _xp
from openset._progress import bar
from openset._types import UNKNOWN
from openset.outputs import Invalid, Outputs, WithGaps, put_about, replacing

Arrays = dict[str, NDArray[Any]]
_LABELS = ("labels", "label", "targets", "target")
_IDS = ("ids", "id", "paths", "path")


def gather(
    forward: Callable[..., Arrays],
    batches: Iterable[Any],
    *,
    total: int | None = None,
    out: str | Path | None = None,
    groups: Any = None,
    ids: Any = None,
    unknown: bool = False,
    invalid: Invalid = "error",
    progress: bool = False,
    **about: Any,
) -> Outputs:
    """Run a network on batches, and put what it makes together as `Outputs`.

    Parameters
    ----------
    forward
        Gets the inputs of a batch; returns its arrays by name (logits, features).
    batches
        As :func:`openset.extract.extract` takes them; some perhaps `WithGaps`.
    total
        Number of batches, if it is known.
    **about
        Further fields of the outputs: weight, bias, classes, input_step.

    The others are those of :func:`openset.extract.extract`.
    """
    names: list[Any] = []
    with ExitStack() as stack:
        rows = _Rows(out, stack)
        for batch in bar(batches, "extracting", total=total, show=progress):
            inputs, named, labels, more = parts_of(batch)
            made = forward(*inputs, **named)
            made = batch.filled(made) if isinstance(batch, WithGaps) else made
            n = len(made["features"])
            labels = np.full(n, UNKNOWN) if unknown else labels
            if labels is not None:
                labels = _check.labels(
                    "extract", "labels", _xp.to_numpy(labels), lowest=-1
                )
                _check.same_length("extract", {"inputs": n, "labels": labels.size})
                made["labels"] = labels
            names.extend(() if more is None else more)
            rows.append(n, made)
        if not rows.n:
            _check.fail("extract", "loader", "non-empty", "no sample")
        groups = [groups] * rows.n if isinstance(groups, str) else groups
        given = {"groups": groups, "ids": (names or None) if ids is None else ids}
        for name, values in given.items():
            if values is not None:
                about[name] = _check.names("extract", name, values)
        rows.finish(about)
    if out is None:
        return Outputs(**rows.arrays(), **about, invalid=invalid)
    return Outputs.load(Path(out), invalid=invalid)


def parts_of(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any, Any]:
    """Split a batch into arguments and keywords of the network, labels, and ids."""
    batch = batch.batch if isinstance(batch, WithGaps) else batch
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in _LABELS if name in batch), None)
        ids = next((batch[name] for name in _IDS if name in batch), None)
        others = [name for name in batch if name not in {*_LABELS, *_IDS}]
        return (), {name: batch[name] for name in others}, labels, ids
    parts = [*batch] if isinstance(batch, tuple | list) else [batch]
    inputs, labels, ids = parts + [None] * (3 - len(parts))
    return (inputs,), {}, labels, ids


class _Rows:
    """Batches of named arrays: in lists, or each name appended to a ``.npy`` file.

    NumPy pads the header of a file, so that the number of its rows, which is known
    only at the end, can be written over.
    """

    def __init__(self, out: str | Path | None, stack: ExitStack) -> None:
        self.n, self._stack = 0, stack
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._kinds: dict[str, Any] = {}
        self._streams: dict[str, IO[bytes]] = {}
        self._folder: Path | None = None
        if out is not None:
            found = replacing(Path(out), caller="extract")
            self._folder = stack.enter_context(found)

    def append(self, n: int, batch: Arrays) -> None:
        """Take one batch."""
        for name, array in batch.items():
            kind = array.dtype, array.shape[1:]
            if self._kinds.setdefault(name, kind) != kind:
                _check.fail("extract", name, f"{self._kinds[name]} as before", kind)
            if self._folder is None:
                self._parts.setdefault(name, []).append(array)
                continue
            if name not in self._streams:
                stream = (self._folder / f"{name}.npy").open("wb")
                self._streams[name] = self._stack.enter_context(stream)
                self._head(name)
            self._streams[name].write(np.ascontiguousarray(array).tobytes())
        self.n += n

    def finish(self, about: dict[str, Any]) -> None:
        """Write the number of rows into the files, and what is not one per sample."""
        if self._folder is None:
            return
        for name, stream in self._streams.items():
            stream.seek(0)
            self._head(name)
            stream.flush()
        for name in [one for one, x in about.items() if isinstance(x, np.ndarray)]:
            np.save(self._folder / f"{name}.npy", about.pop(name), allow_pickle=False)
        put_about(self._folder, about)
        Outputs.load(self._folder, invalid="keep")  # groups of another length

    def _head(self, name: str) -> None:
        dtype, shape = self._kinds[name]
        facts = {"descr": dtype.str, "fortran_order": False, "shape": (self.n, *shape)}
        npy.write_array_header_1_0(self._streams[name], facts)

    def arrays(self) -> Arrays:
        """Return the arrays that are in lists, one row per sample."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}

"""The loop that runs every network: batches in, `Outputs` out."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._progress import bar
from openset._types import UNKNOWN
from openset.outputs import Invalid, Outputs, WithGaps

Arrays = dict[str, NDArray[Any]]
_LABELS = ("labels", "label", "targets", "target")
_IDS = ("ids", "id", "paths", "path")


def gather(
    forward: Callable[..., Arrays],
    batches: Iterable[Any],
    *,
    total: int | None = None,
    head: Arrays | None = None,
    out: str | Path | None = None,
    classes: Iterable[str] = (),
    groups: Any = None,
    ids: Any = None,
    unknown: bool = False,
    step: Any = None,
    invalid: Invalid = "error",
    progress: bool = True,
) -> Outputs:
    """Run a network on batches, and put what it makes together as `Outputs`.

    Parameters
    ----------
    forward
        Gets the inputs of a batch; returns its arrays by name (logits, features).
    batches
        As :func:`openset.extract.extract` takes them; some perhaps `WithGaps`.
    total
        Number of batches.
    head
        Weight and bias of the last layer.
    step
        What `forward` does to its inputs.

    The others are as in :func:`openset.extract.extract`.
    """
    words = "" if step is None else getattr(step, "words", type(step).__name__)
    about: dict[str, Any] = {"classes": tuple(classes), "input_step": words}
    about |= head or {}
    names: list[Any] = []
    where: Any = nullcontext()
    if out is not None:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        where = TemporaryDirectory(dir=Path(out).parent)  # there is room beside it
    with where as folder:
        rows = _Rows(None if folder is None else Path(folder))
        for batch in bar(batches, "extracting", total=total, show=progress):
            inputs, named, labels, more = parts_of(batch)
            made = forward(*inputs, **named)
            made = batch.filled(made) if isinstance(batch, WithGaps) else made
            n = len(made["features"])
            if unknown:
                labels = np.full(n, UNKNOWN)
            if labels is not None:
                labels = _xp.to_numpy(labels)
                made["labels"] = _check.labels("extract", "labels", labels, lowest=-1)
                _check.same_length("extract", {"inputs": n, "labels": len(labels)})
            names.extend(() if more is None else more)
            rows.append(n, made)
        if not rows.n:
            _check.fail("extract", "loader", "non-empty", "no sample")
        about["groups"] = [groups] * rows.n if isinstance(groups, str) else groups
        about["ids"] = (names or None) if ids is None else ids
        found = Outputs(**rows.arrays(), **about, invalid=invalid)
        if out is None:
            return found
        found.save(out)
    return Outputs.load(out, invalid=invalid)


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
    """Batches of named arrays: in lists, or each name appended to a file."""

    def __init__(self, folder: Path | None) -> None:
        self.n, self.folder = 0, folder
        self.parts: dict[str, list[NDArray[Any]]] = {}
        self.kinds: dict[str, Any] = {}

    def append(self, n: int, batch: Arrays) -> None:
        """Take one batch."""
        for name, array in batch.items():
            kind = array.dtype, array.shape[1:]
            if self.kinds.setdefault(name, kind) != kind:
                _check.fail("extract", name, f"{self.kinds[name]} as before", kind)
            if self.folder is None:
                self.parts.setdefault(name, []).append(array)
                continue
            with (self.folder / name).open("ab") as stream:
                stream.write(np.ascontiguousarray(array).tobytes())
        self.n += n

    def arrays(self) -> Arrays:
        """Return all rows: in memory, or mapped."""
        if self.folder is None:
            return {name: np.concatenate(parts) for name, parts in self.parts.items()}
        return {
            name: np.memmap(self.folder / name, dtype, "r", shape=(self.n, *shape))
            for name, (dtype, shape) in self.kinds.items()
        }

"""`TorchSketch`: counts of scores on a GPU, for brackets of metrics."""

from collections.abc import Mapping

import numpy as np

from openset import _check, _extras
from openset._types import UNKNOWN
from openset.metrics import Sketch, bins

with _extras.importing("openset.integrations.torch_sketch", "torch"):
    import torch
    from torch import Tensor

__all__ = ["NAMES", "TorchSketch", "count", "empty", "layout", "to_sketch"]

NAMES = (*bins.SHAPES, "unusable")
"""Names of the tables."""

_KINDS = 3  # correct, wrong, unknown


class TorchSketch:
    """A :class:`openset.metrics.Sketch` whose counts stay on a device.

    Batches stay on the device; :meth:`sketch` copies the counts (88 MB) to the CPU
    once. Samples that a sketch does not accept (NaN, labels below -1) are counted, and
    reported by :meth:`sketch`.

    Parameters
    ----------
    device
        Where to count: the device of the scores. It needs float64.

    Examples
    --------
    >>> counts = TorchSketch()
    >>> counts.update(
    ...     known=torch.tensor([0.9, 0.2, 0.3]), predicted=torch.tensor([0, 0, 0]),
    ...     labels=torch.tensor([0, 0, -1]))
    >>> counts.sketch().bracket("auroc")
    Bracket(low=0.5, high=0.5)
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._tables = empty(device)
        self._layout = layout(device)

    def update(self, known: Tensor, predicted: Tensor, labels: Tensor) -> None:
        """Count a batch: knownness, predicted classes, and labels (-1: unknown)."""
        count(self._tables, self._layout, known, predicted, labels)

    def sketch(self) -> Sketch:
        """Return the counts so far as a sketch on the CPU."""
        return to_sketch("TorchSketch", self._tables)


def empty(device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return empty tables: those of a sketch, and a count of unusable samples."""
    shapes: dict[str, tuple[int, ...]] = {"unusable": (1,)}
    shapes |= {name: (_KINDS, length) for name, length in bins.SHAPES.items()}
    return {
        name: torch.zeros(shape, dtype=torch.int64, device=device)
        for name, shape in shapes.items()
    }


def layout(device: torch.device | str) -> bins.Rows:
    """Return the lookup tables of the bins on a device."""
    return bins.Rows(*(torch.tensor(table, device=device) for table in bins.rows()))


def count(
    tables: Mapping[str, Tensor],
    rows: bins.Rows,
    known: Tensor,
    predicted: Tensor,
    labels: Tensor,
) -> None:
    """Count a batch into tables on its device, without waiting for the device."""
    lengths = {"known": known, "predicted": predicted, "labels": labels}
    _check.same_length("Sketch.update", {n: v.shape[0] for n, v in lengths.items()})
    for name, array in lengths.items():
        is_number = array.dtype.is_floating_point or array.dtype.is_signed
        if array.ndim != 1 or not is_number:
            got = f"shape {tuple(array.shape)} of {array.dtype}"
            rule = "a vector of a type with a sign"
            msg = _check.must(rule, caller="Sketch.update", name=name, got=got)
            raise TypeError(msg)
    is_bad = known.isnan() | (labels < UNKNOWN) | (predicted < 0)
    tables["unusable"].add_(is_bad.sum())
    kind = (labels != predicted).long() + (labels == UNKNOWN)
    found = bins.locate(known.detach().double(), rows, torch.where)
    one = torch.ones_like(kind)
    for name, at in found._asdict().items():
        entry = kind * bins.SHAPES[name] + at
        tables[name].view(-1).index_add_(0, entry, one)


def to_sketch(caller: str, tables: Mapping[str, Tensor]) -> Sketch:
    """Copy tables to the CPU, or raise if samples were unusable."""
    n_bad = int(tables["unusable"])
    if n_bad:
        msg = _check.must(
            "free of NaN in known, of labels below -1 and of predicted below 0",
            caller=caller,
            name="samples",
            got=f"{n_bad} others",
        )
        raise ValueError(msg)
    state: dict[str, np.ndarray] = {
        name: tables[name].cpu().numpy() for name in bins.SHAPES
    }
    return Sketch.from_state(**state)

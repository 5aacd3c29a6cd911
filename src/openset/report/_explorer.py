"""Data of the threshold explorer, packed for the page."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.metrics.counts import ALPHA, positions, ranking_counts
from openset.metrics.curves import optimum
from openset.report._rejection import class_name
from openset.report._runs import Run
from openset.report._svg import readable
from openset.scores import Scores
from openset.thresholds import Threshold

BUDGET = 5_000_000
"""Largest size of the explorer's data, in bytes."""

MOST_SAMPLES = 250_000
"""Largest number of samples per cell; of more, every k-th is shown, with a note."""

MOST_CELLS = 12
ALPHAS = np.linspace(0.0, 1.0, 101)


@dataclass(eq=False)
class Pack:
    """Cells of the explorer and their shared arrays, little-endian in base64."""

    cells: list[dict[str, Any]] = field(default_factory=list)
    arrays: list[dict[str, str]] = field(default_factory=list)
    n_left_out: int = 0
    _places: dict[tuple[str, str], int] = field(default_factory=dict)
    _size: int = 0

    def add(self, run: Run, scores: Scores) -> bool:
        """Add a cell if there is room; return whether it was added."""
        if len(self.cells) >= MOST_CELLS:
            self.n_left_out += 1
            return False
        before = len(self.arrays), self._size
        cell = self._cell(run, scores)
        # The first cell is added whatever its size: the explorer needs at least one.
        if self.cells and self._size > BUDGET:
            del self.arrays[before[0] :]
            self._places = {k: i for k, i in self._places.items() if i < before[0]}
            self._size = before[1]
            self.n_left_out += 1
            return False
        self.cells.append(cell)
        return True

    def _cell(self, run: Run, scores: Scores) -> dict[str, Any]:
        threshold, calibration = run.threshold, run.calibration()
        unit = "knownness"
        value = threshold.value if isinstance(threshold, Threshold) else threshold
        hindsight = self._optima(scores)
        best = None
        if value is None:  # the page starts at the oracle, with the α of its OSA
            alpha = ALPHA if run.alpha is None else run.alpha
            best = _text(optimum(ranking_counts(scores), alpha=alpha).threshold)
        calibrated = None
        if calibration is not None and calibration.n_known and calibration.n_unknown:
            calibrated = self._optima(calibration)
        n = len(scores)
        rows = np.arange(n)
        if n > MOST_SAMPLES:
            rows = _every(scores, -(-n // MOST_SAMPLES))
            scores = scores.take(rows)
        label, predicted = positions(scores)
        n_classes = scores.classes.size
        small = np.min_scalar_type(n_classes)
        cell: dict[str, Any] = {
            "name": readable(run.method),
            "protocol": readable(run.protocol),
            "repeat": run.repeat,
            "unit": unit,
            "n": n,
            "shown": len(scores),
            "classes": [
                readable(class_name(run.classes, c)) for c in scores.classes.tolist()
            ],
            "threshold": None if value is None else _text(float(value)),
            "best": best,
            # A study has such metrics without a threshold if a rule made the decisions.
            "by_rule": value is None and "overall_score" in run.values,
            "alpha": run.alpha,
            "known": self._array(scores.known, "f8"),
            "label": self._array(label, small.str[1:]),
            "predicted": self._array(predicted, small.str[1:]),
            "row": self._array(rows, "u4") if n > len(scores) else None,
            "hindsight": hindsight,
            "calibrated": calibrated,
            "groups": [],
            "group": None,
        }
        if scores.groups is not None:
            names, place = np.unique(scores.groups.astype(str), return_inverse=True)
            if 1 < names.size < 2**16:
                cell["groups"] = [readable(name) for name in names.tolist()]
                kind = np.min_scalar_type(int(names.size)).str[1:]
                cell["group"] = self._array(place, kind)
        return cell

    def _optima(self, scores: Scores) -> int:
        """Best thresholds for α = 0, 0.01, ..., 1; exact, as in `thresholds.osa`."""
        table = ranking_counts(scores)  # one sort for all
        found = [optimum(table, alpha=float(a)).threshold for a in ALPHAS.round(2)]
        return self._array(np.array(found), "f8")

    def _array(self, values: NDArray[Any], kind: str) -> int:
        data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
        text = base64.b64encode(data).decode("ascii")
        key = (kind, text)  # detectors on one network share labels: kept once
        if key not in self._places:
            self._places[key] = len(self.arrays)
            self.arrays.append({"kind": kind, "data": text})
            self._size += len(text)
        return self._places[key]


def pack(chosen: Sequence[tuple[Run, Scores]]) -> Pack:
    """Pack the first cells that fit."""
    made = Pack()
    for run, scores in chosen:
        made.add(run, scores)
    return made


def _every(scores: Scores, k: int) -> NDArray[np.intp]:
    """Take every k-th known and every k-th unknown sample, in order of knownness."""
    order = np.lexsort((scores.known, scores.is_unknown))
    return np.sort(order[k // 2 :: k])


def _text(value: float) -> str:
    """Format a number so that the page reads the same float."""
    if np.isfinite(value):
        return repr(value)
    return "inf" if value > 0 else "-inf"

"""Data of the threshold explorer, packed for the page."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.metrics.counts import positions, ranking_counts
from openset.metrics.curves import optimum
from openset.report.decisions import class_name
from openset.report.display import readable
from openset.report.read import Run
from openset.scores import Scores

MOST_CELLS = 12
MOST_SAMPLES = 250_000
"""Largest number of samples per cell; of more, every k-th is shown, with a note."""

MOST_TOGETHER = 350_000
"""Largest number of samples of all cells, but for the first: about 5 MB."""

ALPHAS = np.linspace(0.0, 1.0, 101)


@dataclass(eq=False)
class Pack:
    """Cells of the explorer and their shared arrays, little-endian in base64."""

    cells: list[dict[str, Any]] = field(default_factory=list)
    _places: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def arrays(self) -> list[dict[str, str]]:
        """The arrays of all cells, each once."""
        return [{"kind": kind, "data": data} for kind, data in self._places]

    def add(self, run: Run, scores: Scores) -> None:
        """Add a cell, if there is room."""
        shown = min(len(scores), MOST_SAMPLES) + sum(one["shown"] for one in self.cells)
        is_full = len(self.cells) == MOST_CELLS or shown > MOST_TOGETHER
        if not (self.cells and is_full):  # it needs at least one
            self.cells.append(self._cell(run, scores))

    def _cell(self, run: Run, scores: Scores) -> dict[str, Any]:
        calibration, best, calibrated = run.calibration(), None, None
        hindsight = self._optima(scores)
        if run.cut is None:  # the page starts at the oracle, with the α of its OSA
            best = _text(optimum(ranking_counts(scores), alpha=run.alpha).threshold)
        if calibration is not None and calibration.n_known and calibration.n_unknown:
            calibrated = self._optima(calibration)
        n, row = len(scores), None
        if n > MOST_SAMPLES:
            rows = _every(scores, -(-n // MOST_SAMPLES))
            scores, row = scores.take(rows), self._array(rows, "u4")
        label, predicted = positions(scores)
        small = np.min_scalar_type(scores.classes.size).str[1:]
        names, group = [], None
        if scores.groups is not None:
            every, place = np.unique(scores.groups.astype(str), return_inverse=True)
            if 1 < every.size < 2**16:
                names = [readable(name) for name in every.tolist()]
                group = self._array(place, np.min_scalar_type(int(every.size)).str[1:])
        return {
            "name": readable(run.method),
            "protocol": readable(run.place.protocol),
            "unit": "knownness",
            "n": n,
            "shown": len(scores),
            "classes": [
                readable(class_name(run.classes, c)) for c in scores.classes.tolist()
            ],
            "threshold": None if run.cut is None else _text(float(run.cut)),
            "best": best,
            # A study has such metrics without a threshold if a rule made the decisions.
            "by_rule": run.cut is None and "overall_score" in run.values,
            "alpha": run.alpha,
            "known": self._array(scores.known, "f8"),
            "label": self._array(label, small),
            "predicted": self._array(predicted, small),
            "row": row,
            "hindsight": hindsight,
            "calibrated": calibrated,
            "groups": names,
            "group": group,
        }

    def _optima(self, scores: Scores) -> int:
        """Best thresholds for α = 0, 0.01, ..., 1; exact, as in `thresholds.osa`."""
        table = ranking_counts(scores)  # one sort for all
        found = [optimum(table, alpha=float(a)).threshold for a in ALPHAS.round(2)]
        return self._array(np.array(found), "f8")

    def _array(self, values: NDArray[Any], kind: str) -> int:
        data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
        text = base64.b64encode(data).decode("ascii")
        # Detectors on one network share labels: kept once.
        return self._places.setdefault((kind, text), len(self._places))


def pack(chosen: Iterable[tuple[Run, Scores]]) -> Pack:
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

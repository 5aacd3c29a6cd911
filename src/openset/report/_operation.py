"""Open-set accuracy over unknown rejection: how a threshold does, and could do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io
from openset.thresholds import Operation


@dataclass(frozen=True, eq=False)
class OperatingCurve:
    """One method: its curve, where its threshold lands, and the best there is."""

    urr: NDArray[np.float64]
    osa: NDArray[np.float64]
    operational: tuple[float, float]
    best: tuple[float, float]


@dataclass(frozen=True, eq=False)
class OperatingCurves:
    """Fig. 1 of the PostMax paper: a curve, a star and a diamond per method."""

    methods: Mapping[str, OperatingCurve]
    alpha: float

    def frame(self) -> Any:
        """Return a pandas table: method, kind (curve, operational, best), urr, osa."""
        pd = _io.optional("OperatingCurves.frame", "pandas", name="tables")
        rows = [
            {"method": name, "kind": kind, "urr": urr, "osa": osa}
            for name, curve in self.methods.items()
            for kind, points in (
                ("curve", zip(curve.urr, curve.osa, strict=True)),
                ("operational", [curve.operational]),
                ("best", [curve.best]),
            )
            for urr, osa in points
        ]
        return pd.DataFrame(rows)


def operating_curves(operations: Mapping[str, Operation]) -> OperatingCurves:
    """Gather operations of several methods on one test set.

    Parameters
    ----------
    operations
        From method to what :func:`openset.thresholds.operate` returned, all reported
        with the same weight of the known side.

    Examples
    --------
    >>> from openset import Scores, thresholds
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    >>> test = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    >>> done = thresholds.operate(calibration, test, alpha=0.5)
    >>> curves = operating_curves({"msp": done})
    >>> curves.methods["msp"].operational, curves.methods["msp"].best
    ((1.0, 0.75), (1.0, 1.0))
    """
    alphas = {operation.alpha_test for operation in operations.values()}
    if len(alphas) != 1:
        msg = _check.must(
            "reported with one weight of the known side",
            caller="operating_curves",
            name="operations",
            got=", ".join(f"{alpha:g}" for alpha in sorted(alphas)) or "none",
        )
        raise ValueError(msg)
    methods = {
        name: OperatingCurve(
            urr=operation.curve.urr,
            osa=operation.curve.osa,
            operational=(operation.operational.urr, operation.operational.osa),
            best=(operation.best.urr, operation.best.osa),
        )
        for name, operation in operations.items()
    }
    return OperatingCurves(methods=methods, alpha=alphas.pop())

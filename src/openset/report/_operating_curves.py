"""Open-set accuracy over unknown rejection: how a threshold does, and could do."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io
from openset.metrics import osa, osa_curve, osa_optimum, urr
from openset.report._chart import Chart, Line, Mark
from openset.report._display import Brief, Display, named
from openset.scores import Scores
from openset.thresholds import Operation, Threshold


@dataclass(frozen=True, eq=False)
class OperatingCurve:
    """One method: its curve, where its threshold lands, and the best there is.

    `operational` is None for scores that came without a threshold.
    """

    urr: NDArray[np.float64]
    osa: NDArray[np.float64]
    operational: tuple[float, float] | None
    best: tuple[float, float]


@dataclass(frozen=True, eq=False)
class OperatingCurves:
    """Fig. 1 of the PostMax paper: a curve, a star and a diamond per method."""

    methods: Mapping[str, OperatingCurve]
    alpha: float

    def to_frame(self) -> Any:
        """Return a pandas table: method, kind (curve, operational, best), urr, osa."""
        pd = _io.optional("OperatingCurves.to_frame", "pandas", name="tables")
        return pd.DataFrame(self._columns())

    def _columns(self) -> dict[str, NDArray[Any]]:
        names, kinds, across, upward = [], [], [], []
        for name, curve in self.methods.items():
            star = () if curve.operational is None else (curve.operational,)
            points = np.array([*star, curve.best])
            n = curve.urr.size
            names.append(np.full(n + len(points), name))
            kinds += ["curve"] * n + ["operational"] * len(star) + ["best"]
            across += [curve.urr, points[:, 0]]
            upward += [curve.osa, points[:, 1]]
        return {
            "method": np.concatenate(names),
            "kind": np.array(kinds),
            "urr": np.concatenate(across),
            "osa": np.concatenate(upward),
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw with matplotlib; also write ``.pdf``, ``.svg`` or ``.png`` to `path`."""
        from openset.report._matplotlib import draw  # noqa: PLC0415  # it knows this class

        return draw(self, path)

    def svg(self) -> str:
        """Return a small drawing for web pages."""
        return self.display().svg()

    def _repr_html_(self) -> str:
        return self.display()._repr_html_()

    def display(self) -> Display:
        """Return the same as the page shows it."""
        lines, marks, rows = [], [], []
        for i, (name, curve) in enumerate(self.methods.items()):
            line = Line(
                name=name or "all thresholds", x=curve.urr, y=curve.osa, colour=i
            )
            lines.append(line)
            x, y = curve.best
            marks.append(
                Mark(name="best in hindsight", x=x, y=y, shape="diamond", colour=i)
            )
            at: tuple[Any, Any] = ("–", "–")
            if curve.operational is not None:
                at = curve.operational
                marks.append(
                    Mark(
                        name="the threshold in use",
                        x=at[0],
                        y=at[1],
                        shape="star",
                        colour=i,
                    )
                )
            rows.append((name, at[1], at[0], curve.best[1], curve.best[0]))
        chart = Chart(
            x_label="unknown rejection rate",
            y_label=f"open-set accuracy, α = {self.alpha:.2f}",
            lines=tuple(lines),
            marks=tuple(marks),
            x_limits=(0.0, 1.0),
        )
        header = ("name", "OSA in use", "URR in use", "OSA at best", "URR at best")
        return Display(
            title="Open-set accuracy over URR",
            columns=self._columns(),
            charts=(chart,),
            brief=Brief(header=header, rows=tuple(rows)),
        )


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
    alpha = _one_alpha("operating_curves", [o.alpha_test for o in operations.values()])
    methods = {
        name: OperatingCurve(
            urr=operation.curve.urr,
            osa=operation.curve.osa,
            operational=(operation.operational.urr, operation.operational.osa),
            best=(operation.best.urr, operation.best.osa),
        )
        for name, operation in operations.items()
    }
    return OperatingCurves(methods=methods, alpha=alpha)


def osa_over_urr(
    scores: Scores | Operation | Mapping[str, Scores] | Mapping[str, Operation],
    *,
    thresholds: float | Threshold | Mapping[str, float | Threshold] | None = None,
    alpha: float | None = None,
) -> OperatingCurves:
    """Show open-set accuracy over unknown rejection rate, at every threshold.

    Parameters
    ----------
    scores
        Test scores, one or several by name; or what
        :func:`openset.thresholds.operate` returned, which knows its threshold and α.
    thresholds
        The thresholds in use, chosen on other data: one, or by the names of `scores`.
    alpha
        Weight of the known side; by default the share of knowns, which must then be
        the same for all.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    >>> osa_over_urr(one, thresholds=2.0, alpha=0.5).methods[""].operational
    (1.0, 0.75)
    """
    caller = "report.osa_over_urr"
    table: dict[str, Any] = named(caller, scores, (Scores, Operation))
    done = {n: one for n, one in table.items() if isinstance(one, Operation)}
    if done:
        if len(done) < len(table) or thresholds is not None or alpha is not None:
            msg = _check.must(
                "given alone with operations",
                caller=caller,
                name="scores",
                got="other scores, thresholds or alpha beside them",
                remedy="An operation has its threshold and its α",
            )
            raise ValueError(msg)
        return operating_curves(done)
    for one in table.values():
        _check.both_sides(caller, one.n_known, one.n_unknown)
    if alpha is None:
        shares = [one.n_known / len(one) for one in table.values()]
        alpha = _one_alpha(caller, shares, remedy="Give alpha, for example 0.5")
    found = (
        thresholds
        if isinstance(thresholds, Mapping)
        else dict.fromkeys(table, thresholds)
    )
    methods = {name: _curve(one, found.get(name), alpha) for name, one in table.items()}
    return OperatingCurves(methods=methods, alpha=float(alpha))


def _curve(
    scores: Scores, threshold: float | Threshold | None, alpha: float
) -> OperatingCurve:
    value = threshold
    if isinstance(threshold, Threshold):
        scores, value = threshold.cut(scores)
    curve = osa_curve(scores, alpha=alpha)
    best = osa_optimum(scores, alpha=alpha)
    point = None
    if value is not None:
        at = _check.threshold("report.osa_over_urr", value)
        point = (urr(scores, at), osa(scores, at, alpha=alpha))
    return OperatingCurve(
        urr=curve.urr,
        osa=curve.osa,
        operational=point,
        best=(urr(scores, best.threshold), best.value),
    )


def _one_alpha(caller: str, alphas: list[float], remedy: str = "") -> float:
    different = sorted(set(alphas))
    if len(different) != 1:
        msg = _check.must(
            "reported with one weight of the known side",
            caller=caller,
            name="operations" if caller == "operating_curves" else "scores",
            got=", ".join(f"{alpha:g}" for alpha in different) or "none",
            remedy=remedy,
        )
        raise ValueError(msg)
    return different[0]

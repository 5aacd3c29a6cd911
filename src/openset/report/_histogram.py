"""Histograms of knownness: known samples, and each group of unknowns."""

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.report._chart import Chart, Line
from openset.report._display import Brief, Display, one_set
from openset.scores import Scores

_MANY = 5
_TRIM = 0.002


def histogram(
    scores: Scores, *, bins: int = 40, threshold: float | None = None
) -> Display:
    """Show the distribution of knownness: known samples, and each group of unknowns.

    The bins of each group sum to 1, so that small groups are visible. The outermost 0.2
    % of the samples, and infinite scores, are counted in the first and last bin.

    Parameters
    ----------
    scores
        One set of scores; without groups all unknowns form one. Of more than five
        groups, the largest are shown and the rest are pooled.
    bins
        Number of bins.
    threshold
        Draw a line at this threshold.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[3, 4, 1, 2])
    >>> shown = histogram(one, bins=3)
    >>> shown.columns["share"].tolist()
    [0.0, 0.0, 1.0, 0.5, 0.5, 0.0]
    """
    caller = "report.histogram"
    one_set(caller, scores)
    bins = _check.positive_int(caller, "bins", bins)
    parts = by_group(caller, scores)
    edges = _edges(scores.known, bins)
    # Clip values to the ends: the last bin includes its right edge.
    inside = {name: np.clip(v, edges[0], edges[-1]) for name, v in parts.items()}
    shares = {n: np.histogram(v, edges)[0] / v.size for n, v in inside.items()}
    lines = [
        Line(name=f"{name} ({v.size:,})", x=edges, y=shares[name], colour=i,
             kind="steps")
        for i, (name, v) in enumerate(parts.items())
    ]  # fmt: skip
    top = 1.06 * max(float(share.max()) for share in shares.values())
    if threshold is not None and np.isfinite(threshold):
        at = _check.threshold(caller, threshold)
        ends = np.array([0.0, top])
        line = Line(name="threshold", x=np.full(2, at), y=ends, colour=5, kind="dashed")
        lines.append(line)
    chart = Chart(
        x_label="knownness",
        y_label="share of the group",
        lines=tuple(lines),
        x_limits=(float(edges[0]), float(edges[-1])),
        y_limits=(0.0, top),
    )
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    return Display(
        title="Knownness by group",
        columns={
            "group": np.repeat(list(parts), bins),
            "low": np.tile(edges[:-1], len(parts)),
            "high": np.tile(edges[1:], len(parts)),
            "share": np.concatenate(list(shares.values())),
        },
        charts=(chart,),
        brief=Brief(
            header=("group", "samples", *(f"{q:.0%} quantile" for q in quantiles)),
            rows=tuple(
                (name, v.size, *_quantiles(v, quantiles)) for name, v in parts.items()
            ),
        ),
    )


def by_group(caller: str, scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Return the knownness of known samples and of each group of unknown samples."""
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    found = {"known": scores.known[~scores.is_unknown]}
    unknown = scores.known[scores.is_unknown]
    if scores.groups is None:
        return found | {"unknown": unknown}
    groups = scores.groups[scores.is_unknown].astype(str)
    names, counts = np.unique(groups, return_counts=True)
    if names.size == 1:
        return found | {_called(str(names[0])): unknown}
    largest = names[np.argsort(-counts, kind="stable")]
    shown = largest if largest.size <= _MANY else largest[: _MANY - 1]
    for name in np.sort(shown):  # the same colours for every detector
        found[_called(str(name))] = unknown[groups == name]
    rest = ~np.isin(groups, shown)
    if rest.any():
        found[f"{names.size - len(shown)} other groups"] = unknown[rest]
    return found


def _called(group: str) -> str:
    # A group of unknowns may be called "known": keep it apart from the known samples.
    return "unknown" if group in {"", "unknown"} else f"unknown: {group}"


def _edges(known: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    finite = known[np.isfinite(known)]
    if finite.size == 0:
        return np.linspace(-0.5, 0.5, bins + 1)
    ends = np.quantile(finite, [_TRIM, 1 - _TRIM]) if finite.size > 500 else finite
    low, high = float(ends.min()), float(ends.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _quantiles(values: NDArray[np.float64], at: tuple[float, ...]) -> list[float]:
    # "nearest": an infinite score has no interpolation
    return np.quantile(values, at, method="nearest").tolist()

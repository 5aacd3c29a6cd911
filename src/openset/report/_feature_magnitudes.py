"""Magnitudes of features by group, and a heat map of features of one class."""

from typing import Any

import numpy as np

from openset import _check
from openset.magnitudes import KNOWN, FeatureMagnitudes, measure
from openset.report._chart import Chart, HeatMap, Line
from openset.report._display import Brief, Display

_MANY = 5
_DRAWN = 10  # samples of a group in the heat map; the table has all


def feature_magnitudes(
    outputs: Any, *, bins: int = 40, example_class: int | None = None, rng: int = 0
) -> Display:
    """Show feature magnitudes by group, and the features of samples of one class.

    The histogram shows whether unknown samples have larger feature magnitudes (L2
    norms) than known ones; the short table has the AUROC of the largest logit, and of
    the largest logit divided by the magnitude, as in PostMax. The heat map has one row
    per sample classified as one class: squared features, in increasing order of their
    mean over the known samples of that class (neighbours averaged).

    Parameters
    ----------
    outputs
        Labelled `Outputs` with features, or several by name; see
        :func:`openset.magnitudes.measure`. Or its result.
    bins
        Number of bins of the histogram.
    example_class
        Class of the heat map; by default the one that unknowns of most groups are
        classified as.
    rng
        Seed of the draw of examples.

    References
    ----------
    PostMax paper (ECCV 2024), figure 2.

    Examples
    --------
    >>> from openset import Outputs
    >>> f = [[1.0, 0.0], [2.0, 0.0], [3.0, 4.0], [0.0, 6.0]]
    >>> one = Outputs(features=f, labels=[0, 0, -1, -1])
    >>> shown = feature_magnitudes(one, bins=2)
    >>> shown.columns["value"].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    caller = "report.feature_magnitudes"
    bins = _check.positive_int(caller, "bins", bins)
    found = outputs
    if not isinstance(found, FeatureMagnitudes):
        found = measure(outputs, example_class=example_class, rng=rng)
    shown = _shown(found)
    low, high = np.quantile(found.lengths, [0.002, 0.998])
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    shares = {
        name: np.histogram(np.clip(of, low, high), edges)[0] / of.size
        for name, of in shown.items()
    }
    charts: list[Chart | HeatMap] = [
        Chart(
            x_label="length of the feature",
            y_label="share of the group",
            lines=tuple(
                Line(
                    name=f"{name} ({shown[name].size:,})",
                    x=edges,
                    y=share,
                    colour=i,
                    kind="steps",
                )
                for i, (name, share) in enumerate(shares.items())
            ),
            x_limits=(float(edges[0]), float(edges[-1])),
            y_limits=(0.0, 1.06 * max(float(s.max()) for s in shares.values())),
        )
    ]
    heat = {name: of for name, of in found.examples.items() if name in shown}
    if len(heat) > 1:
        charts.append(
            HeatMap(
                title=f"classified as {found.example_class}",
                x_label="features, in the order of the known samples",
                blocks=tuple((name, of[:_DRAWN]) for name, of in heat.items()),
            )
        )
    rows = _histogram_rows(shares, edges) + _heat_rows(found)
    names = ("part", "group", "sample", "low", "high", "value")
    return Display(
        title="Feature magnitudes",
        columns={
            name: np.array([row[i] for row in rows]) for i, name in enumerate(names)
        },
        charts=tuple(charts),
        brief=_brief(found),
    )


def _shown(found: FeatureMagnitudes) -> dict[str, Any]:
    """Return the lengths of the known samples and of the largest groups."""
    groups = found.groups[1:]
    largest = sorted(groups, key=lambda group: -found.of(group).size)
    kept = largest if len(groups) <= _MANY else largest[: _MANY - 1]
    shown = {KNOWN: found.of(KNOWN)}
    shown |= {group: found.of(group) for group in sorted(kept)}
    rest = [found.of(group) for group in groups if group not in kept]
    if rest:
        shown[f"{len(rest)} other groups"] = np.concatenate(rest)
    return shown


def _histogram_rows(shares: dict[str, Any], edges: Any) -> list[tuple[Any, ...]]:
    return [
        ("histogram", name, -1, float(low), float(high), float(value))
        for name, share in shares.items()
        for low, high, value in zip(edges[:-1], edges[1:], share, strict=True)
    ]


def _heat_rows(found: FeatureMagnitudes) -> list[tuple[Any, ...]]:
    return [
        ("heat map", name, i, float(j), float(j + 1), float(value))
        for name, rows in found.examples.items()
        for i, row in enumerate(rows)
        for j, value in enumerate(row)
    ]


def _brief(found: FeatureMagnitudes) -> Brief:
    has_logits = found.top_logits is not None
    header = ["group", "samples", "mean", "median", "longer than known"]
    header += ["AUROC max logit", "AUROC divided"] if has_logits else []
    rows = []
    for group in found.groups:
        of = found.of(group)
        row = [group, of.size, float(of.mean()), float(np.median(of))]
        if group == KNOWN:
            row += ["–"] * (3 if has_logits else 1)
        else:
            row.append(found.longer(group))
            if has_logits:
                row.append(found.auroc(divided=False, group=group))
                row.append(found.auroc(divided=True, group=group))
        rows.append(tuple(row))
    return Brief(header=tuple(header), rows=tuple(rows))

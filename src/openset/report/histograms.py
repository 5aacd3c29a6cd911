"""Displays of distributions: knownness, and magnitudes of features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from openset import _check
from openset._types import UNKNOWN
from openset.metrics import auroc
from openset.metrics.sums import Floats
from openset.report.display import LIGHT, Brief, Display, key, label
from openset.scores import Scores, need_both_sides

_KNOWN = "known"
_MANY = 5  # groups that are shown one by one
_TRIM = 0.002
_BATCH = 1 << 15  # rows read at a time: features may be memory-mapped


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
    need_both_sides("report.histogram", scores)
    known = scores.known
    values, groups = known[scores.is_unknown], np.full(scores.n_unknown, "")
    if scores.groups is not None:
        groups = scores.groups[scores.is_unknown].astype(str)
    # A group of unknowns may be called "known": keep it apart from the known samples.
    parts = {
        "unknown" if name in {"", "unknown"} else f"unknown: {name}": values[
            groups == name
        ]
        for name in np.unique(groups).tolist()
    }
    finite = known[np.isfinite(known)]
    trim = _TRIM if finite.size > 500 else 0.0
    shown = _largest(known[~scores.is_unknown], parts)
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    rows = [
        # "nearest": an infinite score has no interpolation
        (name, v.size, *np.quantile(v, quantiles, method="nearest").tolist())
        for name, v in shown.items()
    ]
    brief = Brief(("group", "samples", *(f"{q:.0%} quantile" for q in quantiles)), rows)
    edges = _edges(finite, bins, trim)
    return _histogram("Knownness by group", "knownness", shown, edges, brief, threshold)


def feature_magnitudes(outputs: Any, *, bins: int = 40) -> Display:
    """Show feature magnitudes by group, and what dividing by them does.

    The histogram shows whether unknown samples have larger feature magnitudes (L2
    norms) than known ones; the short table has the AUROC of the largest logit, and of
    the largest logit divided by the magnitude, as in PostMax.

    Parameters
    ----------
    outputs
        Labelled outputs with features: label -1 marks unknown samples, `groups` say
        where they come from. Or several by name: the name is the group of the unknown
        samples in it.
    bins
        Number of bins of the histogram.

    References
    ----------
    PostMax paper (ECCV 2024), figure 2.

    Examples
    --------
    >>> from openset import Outputs
    >>> f = [[1.0, 0.0], [2.0, 0.0], [3.0, 4.0], [0.0, 6.0]]
    >>> one = Outputs(features=f, labels=[0, 0, -1, -1])
    >>> shown = feature_magnitudes(one, bins=2)
    >>> shown.columns["share"].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    table = outputs if isinstance(outputs, Mapping) else {"": outputs}
    lengths, tops, names = [], [], []
    for name, one in table.items():
        for batch in one.batches(_BATCH):
            here = batch.to("numpy")
            features = np.asarray(here.features, dtype=np.float64)
            lengths.append(np.sqrt(np.einsum("ij,ij->i", features, features)))
            if here.logits is not None:
                tops.append(np.asarray(here.logits).max(axis=1).astype(np.float64))
        groups = np.full(len(one), name, dtype=np.object_)
        if not name and one.groups is not None:
            groups = one.groups.astype(np.object_)
        # A group of unknowns may be called "known": keep it apart from the others.
        groups[groups == ""] = "unknown"
        groups[groups == _KNOWN] = f"unknown: {_KNOWN}"
        groups[np.asarray(one.labels) != UNKNOWN] = ""  # before all other names
        names.append(groups.astype(np.str_))
    length, group = np.concatenate(lengths), np.concatenate(names)
    is_known = group == ""
    n_known = int(np.count_nonzero(is_known))
    _check.both_sides("report.feature_magnitudes", n_known, group.size - n_known)
    parts = {str(g): length[group == g] for g in np.unique(group[~is_known])}
    compared = {"longer than known": -length}  # higher is more known
    if sum(map(len, tops)) == group.size:
        top = np.concatenate(tops)
        lowest = np.full_like(top, -np.inf)
        ratio = np.divide(top, length, where=length > 0, out=lowest)
        compared |= {"AUROC max logit": top, "AUROC divided": ratio}
    rows: list[tuple[Any, ...]] = []
    for name, of in {_KNOWN: length[is_known], **parts}.items():
        more: list[Any] = ["–"] * len(compared)
        if name in parts:
            pair = is_known | (group == name)
            labels = np.where(is_known[pair], 0, UNKNOWN)
            part = Scores(labels=labels, predicted=0 * labels, known=length[pair])
            more = [auroc(part.with_known(v[pair])) for v in compared.values()]
        rows.append((name, of.size, float(of.mean()), float(np.median(of)), *more))
    return _histogram(
        "Feature magnitudes",
        "length of the feature",
        _largest(length[is_known], parts),
        _edges(length, bins, _TRIM),
        Brief(("group", "samples", "mean", "median", *compared), rows),
    )


def _largest(known: Floats, groups: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the known values and those of the largest groups; the rest are one."""
    order = sorted(groups, key=lambda name: -groups[name].size)
    kept = order if len(order) <= _MANY else order[: _MANY - 1]
    # In the order of their names: the same colours for every detector.
    shown = {_KNOWN: known} | {name: groups[name] for name in sorted(kept)}
    rest = [groups[name] for name in order[len(kept) :]]
    if rest:
        shown[f"{len(rest)} other groups"] = np.concatenate(rest)
    return shown


def _edges(finite: Floats, bins: int, trim: float) -> Floats:
    low, high = -0.5, 0.5
    if finite.size:
        low, high = np.quantile(finite, [trim, 1 - trim]).tolist()
        if low == high:
            low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _histogram(  # noqa: PLR0917
    title: str,
    x_label: str,
    parts: Mapping[str, Floats],
    edges: Floats,
    brief: Brief,
    threshold: float | None = None,
) -> Display:
    # Clip values to the ends: the last bin includes its right edge.
    shares = {
        name: np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] / v.size
        for name, v in parts.items()
    }

    def draw(axes: Any) -> None:
        for i, (name, share) in enumerate(shares.items()):
            colour = LIGHT[i % len(LIGHT)]
            named = key(f"{name} ({parts[name].size:,})")
            axes.stairs(share, edges, fill=True, color=colour, alpha=0.14)
            axes.stairs(share, edges, color=colour, linewidth=1.1, label=named)
        if threshold is not None and np.isfinite(threshold):
            axes.axvline(threshold, color=LIGHT[5], linestyle="--", label="threshold")
        label(axes, x_label, "share of the group")
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, None))

    return Display(
        title=title,
        columns={
            "group": np.repeat(list(parts), edges.size - 1),
            "low": np.tile(edges[:-1], len(parts)),
            "high": np.tile(edges[1:], len(parts)),
            "share": np.concatenate(list(shares.values())),
        },
        brief=brief,
        panels=(draw,),
    )

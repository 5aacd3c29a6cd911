"""Rejection rates at a threshold: of each known class and each group of unknowns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from openset import _check
from openset.metrics.intervals import wilson
from openset.report._chart import Bar, Bars
from openset.report._display import Brief, Display, from_records, one_set
from openset.scores import Scores

_SHOWN = 16


class _Row(NamedTuple):
    side: str
    name: str
    n: int
    rejected: int
    share: float
    low: float
    high: float


def per_class_rejection(
    scores: Scores, threshold: float, *, classes: Sequence[str] = ()
) -> Display:
    """Show the rejected share of each known class and of each group of unknowns.

    A good threshold has short bars for known classes (above) and long bars for unknowns
    (below). A long bar above is a known class that the detector mistakes for unknown.
    Of more than 16 classes the most rejected are drawn; `columns` hold all.

    Parameters
    ----------
    scores
        Labelled scores.
    threshold
        A sample is rejected iff its knownness is below this.
    classes
        Names of the classes 0, 1, ...

    Examples
    --------
    >>> one = Scores(labels=[0, 0, 1, -1], predicted=[0, 0, 1, 1], known=[4, 1, 3, 2])
    >>> shown = per_class_rejection(one, 2.5, classes=["cat", "dog"])
    >>> list(zip(shown.columns["name"].tolist(), shown.columns["rejected"].tolist()))
    [('cat', 1), ('dog', 0), ('unknown', 1)]
    """
    caller = "report.per_class_rejection"
    one_set(caller, scores)
    threshold = _check.threshold(caller, threshold)
    rejected = scores.known < threshold
    is_known = ~scores.is_unknown
    size = int(scores.classes[-1]) + 1
    support = np.bincount(scores.labels[is_known], minlength=size)
    lost = np.bincount(scores.labels[is_known & rejected], minlength=size)
    rows = [
        _row("known", class_name(classes, c), int(support[c]), int(lost[c]))
        for c in np.flatnonzero(support).tolist()
    ]
    if scores.n_unknown:
        groups = scores.unknown_groups
        names = groups.names if scores.groups is not None else ("unknown",)
        n, out = (
            np.bincount(chosen, minlength=len(names)).tolist()
            for chosen in (groups.index, groups.index[rejected[scores.is_unknown]])
        )
        rows += [
            _row("unknown", name or "unknown", n[i], out[i])
            for i, name in enumerate(names)
        ]
    return Display(
        title="Rejection by class and group",
        columns=from_records(row._asdict() for row in rows),
        charts=(_chart(rows),),
        brief=Brief(
            header=("side", "name", "samples", "rejected", "share", "95 % interval"),
            rows=tuple((*row[:5], f"{row.low:.3f} – {row.high:.3f}") for row in rows),
        ),
    )


def class_name(classes: Sequence[str], c: int) -> str:
    """Return the name of a class, or its number."""
    return str(classes[c]) if c < len(classes) else f"class {c}"


def _row(side: str, name: str, n: int, rejected: int) -> _Row:
    span = wilson(rejected, n, 0.95)
    return _Row(side, name, n, rejected, rejected / n, span.low, span.high)


def _chart(rows: Sequence[_Row]) -> Bars:
    drawn: list[Bar] = []
    left_out = 0
    for colour, side in enumerate(("known", "unknown")):
        mine = [row for row in rows if row.side == side]
        if len(mine) > _SHOWN:
            # The largest errors: rejected known classes, accepted groups of unknowns.
            mine.sort(key=lambda row: row.share, reverse=side == "known")
            left_out += len(mine) - _SHOWN
        drawn += [
            Bar(
                name=row.name,
                value=row.share,
                low=row.low,
                high=row.high,
                colour=colour,
                note=f"of {row.n:,}",
            )
            for row in mine[:_SHOWN]
        ]
    label = "share rejected, with 95 % interval"
    if left_out:
        label += f"; {left_out} more in the table"
    return Bars(x_label=label, bars=tuple(drawn), legend=("known classes", "unknown"))

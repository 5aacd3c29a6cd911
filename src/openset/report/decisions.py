"""Displays of decisions at a threshold: by class and group, and as a matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.metrics import confusion
from openset.metrics.intervals import wilson
from openset.report import display as d
from openset.report.display import INK, LIGHT, Brief, Display, Panel, label, readable
from openset.scores import Scores, need_scores

Ints = NDArray[np.int64]

_BARS = 16  # classes that are shown one by one, and groups
_CLASSES = 14  # in a drawn matrix; those with fewest errors are one row


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
    need_scores("report.per_class_rejection", scores)
    rejected = scores.known < threshold
    # Known classes, then groups of unknowns, as one list of places.
    n_classes, groups = int(scores.classes[-1]) + 1, scores.unknown_groups
    place = np.array(scores.labels)
    place[scores.is_unknown] = n_classes + groups.index
    unknown = groups.names if scores.groups is not None else ("unknown",)
    names = [class_name(classes, c) for c in range(n_classes)]
    names += [str(name) or "unknown" for name in unknown]
    support = np.bincount(place, minlength=len(names)).tolist()
    lost = np.bincount(place[rejected], minlength=len(names)).tolist()
    rows: list[tuple[Any, ...]] = []
    for i in np.flatnonzero(support).tolist():
        side = "unknown" if i >= n_classes else "known"
        span = wilson(lost[i], support[i], 0.95)
        share = lost[i] / support[i]
        rows.append((side, names[i], support[i], lost[i], share, span.low, span.high))
    drawn: list[tuple[Any, ...]] = []
    for side in ("known", "unknown"):
        mine = [row for row in rows if row[0] == side]
        if len(mine) > _BARS:
            # The largest errors: rejected known classes, accepted groups of unknowns.
            mine.sort(key=lambda row: row[4], reverse=side == "known")
        drawn += mine[:_BARS]

    def draw(axes: Any) -> None:
        for i, (side, _, n, _, share, low, high) in enumerate(drawn):
            is_new = all(row[0] != side for row in drawn[:i])
            named = {"known": "known classes"}.get(side, side) if is_new else None
            colour = LIGHT[side == "unknown"]
            axes.barh(i, share, 0.64, color=colour, label=named)
            axes.plot([low, high], [i, i], color=INK, linewidth=0.9)
            said = f"{share:.1%} of {n:,}"
            axes.text(1.02, i, said, va="center", fontsize="small")
        shown = [readable(row[1], 20) for row in drawn]
        axes.set_yticks(range(len(drawn)), shown, color=INK)
        more = len(rows) - len(drawn)
        said = "share rejected, with 95 % interval"
        label(axes, f"{said}; {more} more in the table" if more else said, "")
        axes.set(xlim=(0, 1), ylim=(len(drawn) - 0.4, -0.6))
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.set_xticks((0, 0.25, 0.5, 0.75, 1))
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")

    header = ("side", "name", "samples", "rejected", "share", "95 % interval")
    fields = ("side", "name", "n", "rejected", "share", "low", "high")
    return Display(
        title="Rejection by class and group",
        columns=d.as_columns(fields, rows),
        brief=Brief(
            header, [(*row[:5], f"{row[5]:.3f} – {row[6]:.3f}") for row in rows]
        ),
        panels=(draw,),
        size=(3.4, 0.5 + 0.15 * len(drawn)),
    )


def confusion_matrix(
    scores: Scores, threshold: float, *, classes: Sequence[str] = ()
) -> Display:
    """Show the confusion matrix: true class by row, decision by column.

    Of more than 14 classes those with fewest errors are drawn as one; `columns` hold
    all.

    Parameters
    ----------
    scores
        Labelled scores.
    threshold
        A sample is accepted iff its knownness is at least this.
    classes
        Names of the classes 0, 1, ...

    Examples
    --------
    >>> made = confusion_matrix(
    ...     Scores(labels=[0, 1, 1, -1], predicted=[0, 1, 0, 1], known=[4, 1, 3, 2]), 2
    ... )
    >>> made.columns["count"].reshape(3, 3)
    array([[1, 0, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    need_scores("report.confusion_matrix", scores)
    found = confusion(scores, threshold)
    known = found.classes.tolist()
    names = [class_name(classes, c) if classes else str(c) for c in known]
    names.append("unknown")
    small, shown = _pooled(found.matrix, names)
    rows = [(name, *row) for name, row in zip(shown, small.tolist(), strict=True)]
    return Display(
        title="Confusion matrix",
        columns={
            "true": np.repeat(names, len(names)),
            "decision": np.tile(names, len(names)),
            "count": found.matrix.ravel(),
        },
        brief=Brief(("true class", *shown), rows),
        panels=(_matrix_panel(small, shown),),
        size=(1.3 + max(0.28 * len(shown), 1.4),) * 2,
    )


def class_name(classes: Sequence[str], c: int) -> str:
    """Return the name of a class, or its number."""
    return str(classes[c]) if c < len(classes) else f"class {c}"


def _pooled(matrix: Ints, names: list[str]) -> tuple[Ints, list[str]]:
    """Keep the known classes with most errors, and pool the others; unknown is last.

    Classes without a test sample are pooled first.
    """
    n = len(names) - 1
    if n <= _CLASSES:
        return matrix, names
    errors = (matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * np.diag(matrix))[:n]
    is_absent = matrix.sum(axis=1)[:n] == 0
    kept = np.sort(np.lexsort((-errors, is_absent))[: _CLASSES - 1])
    place = np.full(n + 1, kept.size)  # index of the pooled classes
    place[kept] = np.arange(kept.size)
    place[n] = kept.size + 1
    small = np.zeros((kept.size + 2,) * 2, dtype=matrix.dtype)
    np.add.at(small, (place[:, None], place[None, :]), matrix)
    rest = f"{n - kept.size} other classes"
    return small, [*(names[i] for i in kept), rest, names[n]]


def _matrix_panel(matrix: Ints, names: list[str]) -> Panel:
    """Draw counts; shades are shares of the row."""
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)

    def draw(axes: Any) -> None:
        rows, columns = np.indices(matrix.shape).reshape(2, -1)
        hues = [LIGHT[int(off)] for off in rows != columns]
        colours = list(zip(hues, (0.05 + 0.8 * share).ravel().tolist(), strict=True))
        axes.bar(columns, 0.94, 0.94, rows - 0.47, color=colours, clip_on=False)
        for (row, column), count in np.ndenumerate(matrix):
            if count:
                said = str(count) if count < 10_000 else f"{count / 1000:.0f}k"
                size = "small" if len(said) < 4 and len(names) < 12 else "xx-small"
                ink = d.PAGE if share[row, column] > 0.55 else INK
                how = {"ha": "center", "va": "center", "color": ink, "fontsize": size}
                axes.text(column, row, said, **how)
        shown = [readable(name, 18) for name in names]
        slanted = {"rotation": 38, "ha": "left", "rotation_mode": "anchor"}
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(names)), shown, **slanted)
        axes.set_yticks(range(len(names)), shown, color=INK)
        end = len(names) - 0.5
        axes.set(xlim=(-0.5, end), ylim=(end, -0.5), aspect="equal")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)

    return draw

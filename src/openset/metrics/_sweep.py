"""Every thresholded metric at every threshold, from one sort."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset.metrics._class_counts import Floats, positions, ratio
from openset.metrics._weight import ALPHA, Alpha, weight_of
from openset.scores import Scores, need_both_sides


@dataclass(frozen=True)
class Best:
    """The largest value of a metric over all thresholds, and where it is reached."""

    value: float
    threshold: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """One column per metric, one row per distinct threshold, strictest first.

    Columns are named by the keys of the metrics.
    Row 0 rejects everything (threshold +inf). `urr` is the true positive rate of the
    unknown class, the horizontal axis of Fig. 1 of the OpenAUC paper.
    """

    thresholds: Floats
    ccr: Floats
    urr: Floats
    osa: Floats
    f_score: Floats
    f_score_macro_f: Floats
    f_score_micro: Floats
    youden: Floats
    youden_binary: Floats
    normalized_accuracy: Floats
    normalized_accuracy_recall: Floats
    outer_score: Floats
    halfpoint_score: Floats
    overall_score: Floats

    def __repr__(self) -> str:
        n_metrics = len(fields(self)) - 1
        return f"Sweep(thresholds={self.thresholds.size}, metrics={n_metrics})"

    def best(self, name: str) -> Best:
        """Return the largest value of a column; the smallest threshold on ties."""
        names = [field.name for field in fields(self) if field.name != "thresholds"]
        _check.one_of("Sweep.best", "name", name, names)
        column = getattr(self, name)
        # With a score of +inf no threshold rejects all: row 0 is then impossible.
        first = 1 if self.thresholds[1] == np.inf else 0
        # Cumulative sums have rounding errors of about 1e-13: closer values count as
        # equal.
        best = column[first:].max() - 1e-12
        at = int(np.flatnonzero(column[first:] >= best)[-1]) + first
        return Best(value=float(column[at]), threshold=float(self.thresholds[at]))

    def to_frame(self) -> Any:
        """Return a pandas table, one row per threshold."""
        pd = _extras.optional("Sweep.to_frame", "pandas", name="tables")
        return pd.DataFrame({f.name: getattr(self, f.name) for f in fields(self)})


def sweep(scores: Scores, *, balance: float = 0.5, alpha: Alpha = ALPHA) -> Sweep:
    """Compute all thresholded metrics at all thresholds in O(n log n + C).

    Rates averaged over classes change by a known amount with every sample that is
    accepted; the cumulative sum in score order gives the metric at every threshold.
    Halfpoint and Overall use balanced accuracy.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    balance
        Weight λ of normalized accuracy.
    alpha
        Weight of the known samples in open-set accuracy, as in :func:`osa`.

    Examples
    --------
    >>> table = sweep(Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1]))
    >>> table.thresholds, table.urr
    (array([inf,  3.,  2.,  1.]), array([1., 1., 1., 0.]))
    >>> table.best("f_score")
    Best(value=1.0, threshold=2.0)
    """
    need_both_sides("sweep", scores)
    n_known, n_unknown = scores.n_known, scores.n_unknown
    n, n_classes = len(scores), scores.classes.size
    order = np.argsort(-scores.known, kind="stable")
    label, predicted = (place[order] for place in positions(scores))
    correct, unknown = scores.is_correct[order], scores.is_unknown[order]
    values = scores.known[order]
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))

    def at_levels(increments: NDArray[Any]) -> Floats:
        total = np.cumsum(increments, dtype=np.float64)
        return np.concatenate([[0.0], total[ends]])

    support = np.bincount(label, minlength=n_classes + 1)[:n_classes].astype(float)
    share = np.append(ratio(1, support), 0)  # of its class's recall, per sample
    hits, taken = at_levels(correct), at_levels(np.ones(n))
    false_unknown = at_levels(unknown)
    accepted_known = taken - false_unknown
    recall_sum = at_levels(np.where(correct, share[label], 0))
    false_share = ratio(1, n - support)
    fpr_sum = at_levels(np.where(correct, 0, false_share[predicted]))
    precision, f_of_class = _class_increments(correct, predicted, support)

    urr = 1 - false_unknown / n_unknown
    mean_recall, mean_precision = (
        recall_sum / n_classes,
        at_levels(precision) / n_classes,
    )
    n_true = np.count_nonzero(support)
    on_known = 1 - (n_known - hits + taken - hits) / (n_classes * n)
    rejected_unknown = n_unknown - false_unknown
    aus = ratio(rejected_unknown, n - taken)
    weight = float(weight_of("sweep", alpha, n_known, n_unknown))
    return Sweep(
        thresholds=np.concatenate([[np.inf], values[ends]]),
        ccr=hits / n_known,
        urr=urr,
        osa=weight * hits / n_known + (1 - weight) * urr,
        f_score=ratio(2 * mean_precision * mean_recall, mean_precision + mean_recall),
        f_score_macro_f=at_levels(f_of_class) / n_classes,
        f_score_micro=ratio(2 * hits, taken + n_known),
        youden=mean_recall - fpr_sum / n_classes,
        youden_binary=accepted_known / n_known - false_unknown / n_unknown,
        normalized_accuracy=balance * on_known + (1 - balance) * aus,
        normalized_accuracy_recall=balance * on_known + (1 - balance) * urr,
        outer_score=(accepted_known / n_known + urr) / 2,
        halfpoint_score=recall_sum / n_true,
        overall_score=(recall_sum + urr) / (n_true + 1),
    )


def _class_increments(
    correct: NDArray[np.bool_], predicted: NDArray[np.intp], support: Floats
) -> tuple[Floats, Floats]:
    """Change of precision and F-score of its class when each sample is accepted."""
    by_class = np.argsort(predicted, kind="stable")  # score order within each class
    place = predicted[by_class]
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    sizes = np.diff(np.append(starts, place.size))
    rank = np.arange(place.size) - np.repeat(starts, sizes) + 1.0
    total = np.cumsum(correct[by_class])
    before = np.where(starts > 0, total[starts - 1], 0)
    hits = (total - np.repeat(before, sizes)).astype(np.float64)

    def changes(values: Floats) -> Floats:
        steps = np.diff(values, prepend=0.0)
        steps[starts] = values[starts]
        out = np.empty_like(steps)
        out[by_class] = steps
        return out

    return changes(hits / rank), changes(2 * hits / (rank + support[place]))

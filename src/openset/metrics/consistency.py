"""How far a metric can be fooled on your own data, and why OpenAUC cannot.

Propositions 1-3 of the OpenAUC paper are constructions: from any scores they build a
*twin* with the same (or a better) value of the metric that finds no unknown, or names
fewer knowns rightly. :func:`twin` builds them from yours. Propositions 4-8 are laws of
OpenAUC; :func:`propositions` checks them on yours.

References
----------
Wang et al., "OpenAUC: towards AUC-oriented open-set recognition", NeurIPS 2022.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics._aggregate import acc_plus_auroc, acc_times_auroc
from openset.metrics._fscore import f_score
from openset.metrics._nacc import normalized_accuracy
from openset.metrics._openauc import openauc
from openset.metrics._oscr import oscr_curve
from openset.metrics._youden import youden
from openset.scores import Scores, need_both_sides

Fooled = Literal[
    "f_score", "youden", "normalized_accuracy", "acc_times_auroc", "acc_plus_auroc"
]

_AT_THRESHOLD: dict[str, Callable[[Scores, float], float]] = {
    "f_score": f_score,
    "youden": youden,
    "normalized_accuracy": normalized_accuracy,
}
_RANKING: dict[str, Callable[[Scores], float]] = {
    "acc_times_auroc": acc_times_auroc,
    "acc_plus_auroc": acc_plus_auroc,
}
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Twin:
    """Adversarial scores, and what two metrics say of the original and of them.

    `found` counts the unknowns rejected at the threshold. `complete` tells whether
    the construction reached its end: all unknowns accepted for F and Youden, all but
    one for normalized accuracy (whose AUS would be 0/0), and for the sums and products
    of accuracy and AUROC the worst order of the known samples.
    """

    scores: Scores
    metric: str
    before: float
    after: float
    openauc_before: float
    openauc_after: float
    found_before: int
    found_after: int
    complete: bool


def twin(scores: Scores, metric: Fooled, threshold: float) -> Twin:
    """Build scores that the metric likes as much, and an operator would not.

    Parameters
    ----------
    scores
        Labelled scores with knowns and unknowns.
    metric
        ``"f_score"`` or ``"youden"`` (Prop. 1: each rejected unknown changes places
        with an accepted known of wrong class), ``"normalized_accuracy"`` (Prop. 2:
        unknowns are let in together with knowns), ``"acc_times_auroc"`` or
        ``"acc_plus_auroc"`` (Prop. 3: wrong knowns take the highest scores).
    threshold
        The operating point.

    Both sides average over classes ``0..C-1`` (C: `n_classes`, or the largest class
    that occurs plus one).

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 1, -1], predicted=[0, 1, 1, 0], known=[0.9, 0.8, 0.7, 0.1]
    ... )
    >>> fooled = twin(scores, "f_score", 0.5)
    >>> fooled.before == fooled.after, fooled.found_before, fooled.found_after
    (True, 1, 0)
    >>> round(fooled.openauc_before, 4), round(fooled.openauc_after, 4)
    (0.6667, 0.3333)
    """
    options = [*_AT_THRESHOLD, *_RANKING]
    _check.one_of("twin", "metric", metric, options)
    threshold = _check.threshold("twin", threshold)
    need_both_sides("twin", scores)
    if scores.n_classes is None:
        # A class that only a changed sample was given must not leave the average.
        n_classes = int(scores.classes[-1]) + 1
        scores = replace(scores, n_classes=n_classes)
    if metric in _RANKING:
        other, complete = _reordered(scores), True
        before, after = (_RANKING[metric](s) for s in (scores, other))
    else:
        build = _let_in if metric == "normalized_accuracy" else _exchanged
        other, complete = build(scores, threshold)
        before, after = (_AT_THRESHOLD[metric](s, threshold) for s in (scores, other))
    return Twin(
        scores=other,
        metric=metric,
        before=before,
        after=after,
        openauc_before=openauc(scores),
        openauc_after=openauc(other),
        found_before=_found(scores, threshold),
        found_after=_found(other, threshold),
        complete=complete,
    )


def _found(scores: Scores, threshold: float) -> int:
    return int(np.count_nonzero(scores.is_unknown & (scores.known < threshold)))


def _exchanged(scores: Scores, threshold: float) -> tuple[Scores, bool]:
    """Prop. 1: exchange rejected unknowns with accepted, wrongly named knowns.

    The paper asks for as many false positives of the known classes as there are
    rejected unknowns. Only those that are known samples can change places, so that is
    what limits us.
    """
    accepted = scores.known >= threshold
    rejected = np.flatnonzero(scores.is_unknown & ~accepted)
    wrong = np.flatnonzero(~scores.is_unknown & ~scores.is_correct & accepted)
    n = min(rejected.size, wrong.size)
    unknown, known = rejected[:n], wrong[:n]
    values, predicted = scores.known.copy(), scores.predicted.copy()
    values[unknown], values[known] = scores.known[known], scores.known[unknown]
    predicted[unknown] = scores.predicted[known]
    return _changed(scores, values, predicted), n == rejected.size


def _let_in(scores: Scores, threshold: float) -> tuple[Scores, bool]:
    """Prop. 2: let an unknown in with each known that is missed, and name that rightly.

    First rejected knowns, until nobody but unknowns is rejected and AUS (a precision)
    is 1; then accepted knowns of wrong class, which raises AKS. One unknown stays
    rejected: with none, AUS is 0/0.
    """
    accepted = scores.known >= threshold
    rejected = np.flatnonzero(scores.is_unknown & ~accepted)[1:]
    is_missed = ~scores.is_unknown & ~(scores.is_correct & accepted)
    missed = np.flatnonzero(is_missed)
    missed = missed[np.argsort(accepted[missed], kind="stable")]  # rejected ones first
    n = min(rejected.size, missed.size)
    unknown, known = rejected[:n], missed[:n]
    values, predicted = scores.known.copy(), scores.predicted.copy()
    values[unknown] = threshold
    values[known] = np.maximum(values[known], threshold)
    predicted[known] = predicted[unknown] = scores.labels[known]
    return _changed(scores, values, predicted), n == rejected.size


def _reordered(scores: Scores) -> Scores:
    """Prop. 3: the same known scores, the highest to wrongly named samples.

    Accuracy and AUROC see no difference: no class changed, and neither did the set of
    known scores.
    """
    right = np.flatnonzero(scores.is_correct)
    wrong = np.flatnonzero(~scores.is_correct & ~scores.is_unknown)
    ascending = np.sort(scores.known[~scores.is_unknown])
    values = scores.known.copy()
    for rows, given in (
        (right, ascending[: right.size]),
        (wrong, ascending[right.size :]),
    ):
        values[rows[np.argsort(scores.known[rows], kind="stable")]] = given
    return _changed(scores, values, scores.predicted)


def _changed(scores: Scores, known: NDArray[Any], predicted: NDArray[Any]) -> Scores:
    return replace(scores, known=known, predicted=predicted)


@dataclass(frozen=True)
class Proposition:
    """A law of OpenAUC, with both of its sides on the data at hand."""

    number: int
    statement: str
    left: float
    right: float
    holds: bool


def propositions(scores: Scores, threshold: float) -> list[Proposition]:
    """Check propositions 4 to 8 of the OpenAUC paper.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 1, -1], predicted=[0, 1, 1, 0], known=[0.9, 0.8, 0.7, 0.1]
    ... )
    >>> [(p.number, p.holds) for p in propositions(scores, 0.5)]
    [(4, True), (5, True), (6, True), (7, True), (8, True)]
    """
    strict = openauc(scores, ties="strict")
    curve = oscr_curve(scores)
    lower_steps = float(np.diff(curve.fpr) @ curve.ccr[:-1])
    exchanged = twin(scores, "f_score", threshold)
    reordered = twin(scores, "acc_times_auroc", threshold)
    slack = _unknown_recall_slack(scores)
    risk = _risk(scores)
    return [
        Proposition(
            4,
            "the share of pairs named and ordered rightly is the area under OSCR",
            strict,
            lower_steps,
            abs(strict - lower_steps) <= _ROUNDING,
        ),
        Proposition(
            5,
            "the exchange that leaves F and Youden alone does not raise OpenAUC",
            exchanged.openauc_after,
            exchanged.openauc_before,
            exchanged.openauc_after <= exchanged.openauc_before + _ROUNDING,
        ),
        Proposition(
            6,
            "at every threshold, unknown recall >= 1 - (1 - OpenAUC) / a, where a is "
            "the share of knowns rejected (left: the smallest margin)",
            slack,
            0.0,
            slack >= -_ROUNDING,
        ),
        Proposition(
            7,
            "the order that leaves accuracy and AUROC alone does not raise OpenAUC",
            reordered.openauc_after,
            reordered.openauc_before,
            reordered.openauc_after <= reordered.openauc_before + _ROUNDING,
        ),
        Proposition(
            8,
            "1 - OpenAUC is the closed-set error plus the share of pairs named rightly "
            "but not ordered rightly",
            1 - strict,
            risk,
            abs(1 - strict - risk) <= _ROUNDING,
        ),
    ]


def _unknown_recall_slack(scores: Scores) -> float:
    """Smallest margin of Prop. 6 over all thresholds that reject a known."""
    value = openauc(scores)
    thresholds = np.unique(scores.known)
    known = np.sort(scores.known[~scores.is_unknown])
    unknown = np.sort(scores.known[scores.is_unknown])
    rejected = np.searchsorted(known, thresholds) / known.size
    recall = np.searchsorted(unknown, thresholds) / unknown.size
    some = rejected > 0
    if not some.any():
        return 0.0
    return float((recall[some] - 1 + (1 - value) / rejected[some]).min())


def _risk(scores: Scores) -> float:
    right = scores.known[scores.is_correct]
    unknown = np.sort(scores.known[scores.is_unknown])
    not_beaten = unknown.size - np.searchsorted(unknown, right)
    pairs = scores.n_known * unknown.size
    wrong = scores.n_known - right.size
    return wrong / scores.n_known + float(not_beaten.sum()) / pairs
